// A receiver of your own is down for 21 minutes, in a moment: go test outage_test.go
//
// Go 1.19 or newer, and postbackd on the PATH. The daemon ends with the test.
package outage

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// startDaemon answers the URL of a daemon for this test, with the key of an account in it.
func startDaemon(t *testing.T) string {
	flags := strings.Fields("dev --port 0 --clock manual --stop-with-stdin")
	command := exec.Command("postbackd", flags...)
	stdin, _ := command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); command.Wait() })
	var ready struct{ URL, Account, Key string }
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		t.Fatal("no ready line: ", err)
	}
	return strings.Replace(ready.URL, "://", "://"+ready.Account+":"+ready.Key+"@", 1)
}

func post(t *testing.T, url, body string) {
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil || answer.StatusCode != 200 {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
}

func TestWebhookComesFourTimes(t *testing.T) {
	attempts := make(chan string, 8)
	serve := func(w http.ResponseWriter, r *http.Request) {
		attempts <- r.Header.Get("X-Attempt")
		w.WriteHeader(503)
	}
	receiver := httptest.NewServer(http.HandlerFunc(serve))
	daemon := startDaemon(t)
	post(t, daemon+"/v1/tasks/task_post", `[{"input": 42, "postback_url": "`+receiver.URL+`"}]`)
	post(t, daemon+"/dev/clock/advance", `{"by": "21m"}`)
	receiver.Close()
	close(attempts)
	for _, expected := range []string{"1", "2", "3", "4"} {
		if attempt := <-attempts; attempt != expected {
			t.Error(attempt, " instead of ", expected)
		}
	}
}
