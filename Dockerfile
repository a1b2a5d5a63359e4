# The operator's image: one static binary that runs as nobody on an image without a shell.
#
#   docker build --build-arg VERSION=v0.1.0 -t registry.example.com/storagecluster-operator:v0.1.0 .
#
# For another platform: docker buildx build --platform linux/amd64,linux/arm64 … (Go cross-compiles on the build host's own).
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src

# The modules change less often than the code, so they are a layer of their own.
COPY go.mod go.sum ./
RUN go mod download

COPY cmd ./cmd
COPY pkg ./pkg
ARG TARGETOS TARGETARCH VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /operator ./cmd/operator

FROM gcr.io/distroless/static:nonroot
COPY --from=build /operator /operator
# The number, not the name: Kubernetes can tell from it alone that runAsNonRoot holds.
USER 65532:65532
ENTRYPOINT ["/operator"]
