package main

import (
	"math"
	"slices"
	"time"
)

// percentile is the smallest value that at least that share of them do not exceed.
// It sorts them; of none it is 0.
func percentile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	place := int(math.Ceil(share*float64(len(values)))) - 1
	return values[min(max(place, 0), len(values)-1)]
}

// median of none is 0; of an even number it is the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// milliseconds to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
