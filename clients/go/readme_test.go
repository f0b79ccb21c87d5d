package tenon_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reader is somebody who follows README.md in an empty folder.
type reader struct {
	t      *testing.T
	folder string
}

var goBlock = regexp.MustCompile("(?ms)^```go\n// (\\w+\\.go)\n(.*?)^```$")

func (r reader) run(command string) string {
	r.t.Helper()
	bash := exec.Command("bash", "-o", "pipefail", "-ec", command)
	bash.Dir = r.folder
	bash.Env = append(os.Environ(), "PATH="+filepath.Dir(program(r.t))+":"+os.Getenv("PATH"), "TENON_LOG_LEVEL=warning")
	said, err := bash.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, said)
	}
	return string(said)
}

func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	must(t, err)
	here, err := os.Getwd()
	must(t, err)
	r := reader{t, t.TempDir()}
	blocks := goBlock.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), "\n```go\n"); n != len(blocks) {
		t.Errorf("%d of %d blocks of Go begin with the name of their file", len(blocks), n)
	}
	commands := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(commands) != 3 {
		t.Fatalf("%d blocks of commands", len(commands))
	}
	database(t)
	r.run(strings.ReplaceAll(commands[0][1], "$HOME/tenon/clients/go", "'"+here+"'"))
	for _, block := range blocks {
		must(t, os.WriteFile(filepath.Join(r.folder, block[1]), []byte(block[2]), 0o600))
	}
	r.run("gofmt -l . >unformatted; test ! -s unformatted")
	r.run(commands[1][1])
	start(t, program(t), "worker", "--handler", "*=pool:exec '"+r.folder+"/shop' worker")
	if said := r.run(commands[2][1]); !strings.Contains(said, `"result": {"sent": "ann@example.org"}`) {
		t.Error(said)
	}
	r.run("go vet ./... && go test ./...")
	said := r.run(`echo '{"to": "bob@example.org"}' | tenon worker --handler 'welcome_mail=pool:exec ./shop worker' --run-one welcome_mail -`)
	if !strings.Contains(said, `{"sent":"bob@example.org"}`) {
		t.Error(said)
	}
	fmt.Println("ran: clients/go/README.md:", len(blocks), "files")
}
