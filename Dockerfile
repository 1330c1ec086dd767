# One image for all three services: the command's arguments say which.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /giro ./cmd/giro

FROM scratch
COPY --from=build /giro /giro
USER 65532:65532
ENTRYPOINT ["/giro"]
