// Command joulemark tells what one operation costs in joules, next to how long
// it takes.
package main

import (
	"os"

	"github.com/joulemark/joulemark/internal/cli"
)

func main() { os.Exit(cli.Main(cli.System())) }
