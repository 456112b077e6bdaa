// Posts a task, waits for its end, prints its result; verifies a webhook.
//
// Go 1.19 or newer, nothing else:
//
//	export POSTBACKD_URL=https://tasks.example.com POSTBACKD_KEY=pbd_live_...
//	go run client.go run '{"type": "echo", "input": 42}'
//	WEBHOOK_SECRETS=whsec_... go run client.go verify sha256=... < body
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const tries = 7

// Task is what a client usually reads of a task.
type Task struct {
	ID            string          `json:"id"`
	State         string          `json:"state"`
	StatusMessage string          `json:"status_message"`
	Result        json.RawMessage `json:"result"`
	Error         json.RawMessage `json:"error"`
}

var client = http.Client{
	Timeout: 90 * time.Second,
	// The key is for this daemon alone.
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// call answers the task of the answer. It asks again what got none, or one of a moment: give posts
// an Idempotency-Key.
func call(method, path string, body []byte, header, value string) (Task, error) {
	for tried := 1; ; tried++ {
		pause := 250 * time.Millisecond << tried
		url := os.Getenv("POSTBACKD_URL") + path
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			return Task{}, err
		}
		request.Header.Set("Authorization", "Bearer "+os.Getenv("POSTBACKD_KEY"))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(header, value)
		text, status, after, err := read(client.Do(request))
		if err == nil && status == 200 {
			var answer struct{ Tasks [1]Task }
			err = json.Unmarshal(text, &answer)
			return answer.Tasks[0], err
		}
		if err == nil {
			err = errors.New(string(text))
			// Others say something about the request itself, which would not change.
			if status != 429 && status != 502 && status != 503 && status != 504 {
				return Task{}, err
			}
		}
		if tried == tries {
			return Task{}, err
		}
		if seconds, wrong := strconv.Atoi(after); wrong == nil {
			pause = time.Duration(seconds) * time.Second
		}
		time.Sleep(pause)
	}
}

func read(response *http.Response, err error) (text []byte, status int, after string, _ error) {
	if err != nil {
		return nil, 0, "", err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return text, response.StatusCode, response.Header.Get("Retry-After"), err
}

// post answers the task when it is on disk: once, however often it had to be sent.
func post(task []byte) (Task, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return Task{}, err
	}
	id := hex.EncodeToString(key)
	posted, err := call("POST", "/v1/tasks/task_post", task, "Idempotency-Key", id)
	if err == nil && posted.State == "failed" {
		err = errors.New(posted.StatusMessage)
	}
	return posted, err
}

// wait answers the task when it has ended: completed, failed or cancelled.
func wait(id string) (Task, error) {
	for {
		task, err := call("GET", "/v1/tasks/task_get/"+id, nil, "Prefer", "wait=60")
		if err != nil || task.State != "queued" && task.State != "running" {
			return task, err
		}
	}
}

// verify says whether one of the secrets signed the message: the raw body of a postback, the full
// URL of a pingback. The signatures are X-Signature and, while the secret is being replaced,
// X-Signature-Next.
func verify(message []byte, signatures, secrets []string) bool {
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(message)
		expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		for _, signature := range signatures {
			if hmac.Equal([]byte(expected), []byte(signature)) {
				return true
			}
		}
	}
	return false
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: client run TASK, or client verify SIGNATURE...")
	}
	if os.Args[1] == "verify" {
		secrets := strings.Fields(os.Getenv("WEBHOOK_SECRETS"))
		body, err := io.ReadAll(os.Stdin)
		if err != nil || !verify(body, os.Args[2:], secrets) {
			log.Fatal("not genuine")
		}
		return
	}
	if !strings.HasPrefix(os.Getenv("POSTBACKD_URL"), "http") {
		log.Fatal("Set POSTBACKD_URL to the URL of the daemon, such as http://127.0.0.1:8787")
	}
	task, err := post([]byte(os.Args[2]))
	if err == nil {
		task, err = wait(task.ID)
	}
	if err != nil {
		log.Fatal(err)
	}
	if task.State != "completed" {
		log.Fatal(task.StatusMessage, " ", string(task.Error))
	}
	fmt.Println(string(task.Result))
}
