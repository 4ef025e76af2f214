package marks_test

import (
	"log"
	"os"
	"time"

	"github.com/joulemark/joulemark/marks"
	"github.com/joulemark/joulemark/sync/mark"
)

func sign() {}

func Example() {
	m := marks.New(os.Stdout, marks.Options{})
	if err := m.Hello(mark.Hello{Target: "pi1", Impl: "circl", ImplVersion: "v1.6.5"}); err != nil {
		log.Fatal(err)
	}
	err := m.Window(marks.Load{Alg: "ML-DSA-44", Op: "sign", N: 1000}, func() error {
		for range 1000 {
			sign()
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := m.Idle(2 * time.Second); err != nil {
		log.Fatal(err)
	}
}
