package environ_test

import (
	"os"
	"slices"
	"testing"

	"giro/cmd/giro/environ"
)

func TestGirosSettingsAreLeftOut(t *testing.T) {
	got := environ.Without([]string{"PATH=/bin", "GIRO_KEY=x", "GIRO_TEST_POSTGRES_URL=y"})
	if !slices.Equal(got, []string{"PATH=/bin"}) {
		t.Errorf("came %v", got)
	}
}

func TestATestKeepsItsOwnSettingsAlone(t *testing.T) {
	t.Setenv("GIRO_TENANT", "acme")
	t.Setenv("GIRO_TEST_POSTGRES_URL", "x")
	environ.Clear()
	_, tenant := os.LookupEnv("GIRO_TENANT")
	_, url := os.LookupEnv("GIRO_TEST_POSTGRES_URL")
	if tenant || !url {
		t.Errorf("the tenant is there: %v; the test's server is there: %v", tenant, url)
	}
}
