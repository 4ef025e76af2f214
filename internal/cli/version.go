package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the released version; a build from a checkout says more by its
// build information.
const version = "0.1.0"

// tool is the name and version that is written into runs.
func tool() string { return "joulemark " + version }

func versionVerb(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "version, Go release, platform and what is built in", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Schema   string `json:"schema"`
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{"joulemark.version/1", version, "", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			if asJSON {
				return printJSON(env.Stdout, v)
			}
			_, err := fmt.Fprintf(env.Stdout, "joulemark %s, %s, %s\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
