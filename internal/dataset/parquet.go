package dataset

import (
	"context"
	"errors"
)

func openParquet(ctx context.Context, path string, opt Options) (*Dataset, error) {
	return openParquets(ctx, []string{path}, opt)
}
func openParquets(ctx context.Context, paths []string, opt Options) (*Dataset, error) {
	return nil, errors.New("parquet")
}
