// Check a dashboard by the types that are generated from Grafana's schemas: it prints each unknown field, missing field
// and value that is of another type or out of its bounds, also of the options of panels and of queries.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	known := cog.NewRuntime()
	known.RegisterPanelcfgVariant(bargauge.VariantConfig())
	known.RegisterPanelcfgVariant(stat.VariantConfig())
	known.RegisterPanelcfgVariant(table.VariantConfig())
	known.RegisterPanelcfgVariant(timeseries.VariantConfig())
	known.RegisterDataqueryVariant(prometheus.VariantConfig())
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	read := dashboard.Dashboard{}
	for _, problem := range []error{read.UnmarshalJSONStrict(text), read.Validate()} {
		// No problem may be an empty list of them.
		if problem != nil && problem.Error() != "" {
			fmt.Println(problem)
		}
	}
}
