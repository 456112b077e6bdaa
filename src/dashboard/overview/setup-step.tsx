import type { FunctionComponent } from "preact";
import { useState } from "preact/hooks";

import type { Setup } from "../../api/stats.ts";
import { Command } from "../part/command.tsx";
import { Segments } from "../part/segments.tsx";
import { call } from "../shell/api.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { isOperator, shownAccount } from "../shell/session.ts";

/** One of the first steps. */
export interface SetupStep {
  readonly title: string;
  readonly isDone: boolean;
  /** True where only the operator can do it. */
  readonly isForOperator: boolean;
  /** The instructions, with text to paste. */
  readonly Body: FunctionComponent<{ readonly setup: Setup }>;
}

const RECEIVER_PORT = 9000;
const RECEIVER_URL = `http://127.0.0.1:${RECEIVER_PORT}/`;

/** The first steps, in their order. */
export function firstSteps(setup: Setup): readonly SetupStep[] {
  const forAll = { isForOperator: false };
  return [
    { title: "Make an account", isDone: setup.has_account, isForOperator: true, Body: MakeAccount },
    { ...forAll, title: "Post a task", isDone: setup.has_posted, Body: PostTask },
    { ...forAll, title: "It runs", isDone: setup.has_completed, Body: RunTask },
    {
      ...forAll,
      title: "Start a receiver and send a result to it",
      isDone: setup.has_webhook,
      Body: SendWebhook,
    },
    {
      ...forAll,
      title: "It is delivered: verify its signature",
      isDone: setup.has_delivered,
      Body: VerifyDelivery,
    },
    { ...forAll, title: "Collect the result", isDone: setup.has_collected, Body: CollectResult },
  ];
}

function MakeAccount() {
  return (
    <>
      <p>
        Tasks belong to accounts, and an account has API keys. Make one{" "}
        <a href={hrefOf("/accounts")}>on the page of accounts</a>, or on the daemon's machine, in
        the folder where it runs:
      </p>
      <Command text="postbackd admin account create LOGIN" />
      <p class="hint">The account's first key is shown only once: store it.</p>
    </>
  );
}

function PostTask({ setup }: { readonly setup: Setup }) {
  return (
    <>
      <p>
        Say which key is yours{shownAccount.value === null ? " (any account's will do)" : ""}, then
        post a task with it:
      </p>
      <Command text="export POSTBACKD_KEY=pbd_live_…" />
      <Command text={postCommand(setup)} />
      <TypeHint types={setup.types} />
      <p class="hint">
        This step is done when a task has been accepted: its <code>status_code</code> is 20100.
      </p>
    </>
  );
}

/** The type in the command, and the other types. */
function TypeHint({ types }: Pick<Setup, "types">) {
  const [first, ...others] = types;
  if (first === undefined || others.length === 0) return null;
  const named = others.slice(0, TYPES_NAMED_MAX).join(", ");
  const more = others.length - TYPES_NAMED_MAX;
  return (
    <p class="hint">
      The command names the type <code>{first}</code>. This daemon also has <code>{named}</code>
      {more > 0 && ` and ${more} more`}. Each type expects an input of its own.
    </p>
  );
}

const TYPES_NAMED_MAX = 10;

function RunTask() {
  return (
    <>
      <p>
        You need not do anything: the task runs as soon as it is its turn, and this step is done
        when one has completed. If it fails, its page says why.{" "}
        <a href={hrefOf("/tasks")}>Look at the tasks</a>
      </p>
      {isOperator.value ? (
        <p class="hint">
          Without a configuration there is one type, <code>echo</code>, whose result is its input.{" "}
          <code>postbackd config init</code> writes a configuration in which you define what your
          tasks run.
        </p>
      ) : (
        <p class="hint">The operator of this daemon decides what the tasks of each type run.</p>
      )}
    </>
  );
}

type Language = "python" | "node";

function SendWebhook({ setup }: { readonly setup: Setup }) {
  const [language, setLanguage] = useState<Language>("python");
  return (
    <>
      <div class="row">
        {isOperator.value ? (
          <p>Start a receiver on the daemon's machine. It prints every webhook:</p>
        ) : (
          <p>
            Any URL of yours on the Internet that answers a POST with 2xx is a receiver: put it into
            the last command of this step. If you can run programs on the daemon's machine, this one
            prints every webhook:
          </p>
        )}
        <Segments
          label="Language of the receiver"
          options={[
            { value: "python", text: "Python" },
            { value: "node", text: "Node" },
          ]}
          value={language}
          choose={setLanguage}
        />
      </div>
      <Command text={language === "python" ? PYTHON_RECEIVER : NODE_RECEIVER} what="receiver" />
      {isOperator.value ? <AllowReceiver /> : <AskForReceiver />}
      <p>Then post a task whose result goes to it:</p>
      <Command text={postCommand(setup, RECEIVER_URL)} />
    </>
  );
}

function AllowReceiver() {
  return (
    <>
      <p>
        Webhooks to local addresses are refused unless they are allowed: add this flag to the
        command that starts the daemon, and restart it.
      </p>
      <Command text={`postbackd start --allow-target 127.0.0.1:${RECEIVER_PORT}`} />
    </>
  );
}

function AskForReceiver() {
  return (
    <p>
      Webhooks to local addresses are refused unless they are allowed. For this receiver, ask the
      operator to allow <code>{`127.0.0.1:${RECEIVER_PORT}`}</code>.
    </p>
  );
}

function VerifyDelivery({ setup }: { readonly setup: Setup }) {
  const delivered = useNewestTask("delivery:delivered");
  if (!setup.has_delivered) {
    return (
      <p>
        Nothing has been delivered yet. The page of the task says why:{" "}
        <a href={hrefOf(tasksPath("delivery:retrying,given_up,refused"))}>
          look at failed deliveries
        </a>
      </p>
    );
  }
  return (
    <p>
      Anybody who knows your receiver's URL can post to it; the signature proves what comes from
      this daemon. The page of the task shows the exact bytes that were signed, and how to verify
      them in TypeScript, Python, Go and PHP:{" "}
      {delivered === null ? (
        <a href={hrefOf(tasksPath("delivery:delivered"))}>look at what was delivered</a>
      ) : (
        <a href={hrefOf(`/tasks/${delivered}`)}>verify the newest delivery</a>
      )}
    </p>
  );
}

function CollectResult() {
  const ready = useNewestTask("state:ready");
  const path = `${globalThis.location.origin}/v1/tasks/task_get/${ready ?? "TASK_ID"}`;
  return (
    <>
      <p>A finished task stays ready until somebody collects its result. This needs no receiver:</p>
      <Command text={`curl ${path} \\\n  -H "Authorization: Bearer $POSTBACKD_KEY"`} />
      <p class="hint">
        {ready === null
          ? "TASK_ID is the id in the answer to your post."
          : "The command names the newest ready task."}
      </p>
    </>
  );
}

/** The id of the newest task of a search; null while there is none. */
function useNewestTask(search: string): string | null {
  const query = { limit: 1, q: search };
  const { data } = useResource(search, (load: Load) =>
    call("GET /v1/tasks/search", { ...load, query }),
  );
  return data?.tasks[0]?.id ?? null;
}

/** A command whose task task_post accepts: where there are several types, it must name one. */
function postCommand({ types }: Setup, postbackUrl: string | null = null): string {
  const [first] = types;
  const fields = [
    ...(types.length > 1 && first !== undefined ? [`"type": ${JSON.stringify(first)}`] : []),
    '"input": {"hello": "world"}',
    ...(postbackUrl === null ? [] : [`"postback_url": "${postbackUrl}"`]),
  ];
  const body = `{${fields.join(", ")}}`;
  return [
    `curl ${globalThis.location.origin}/v1/tasks/task_post \\`,
    '  -H "Authorization: Bearer $POSTBACKD_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d '${body}'`,
  ].join("\n");
}

const PYTHON_RECEIVER = `python3 -c '
from http.server import BaseHTTPRequestHandler, HTTPServer
class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(self.headers, body.decode(), flush=True)
        self.send_response(204)
        self.end_headers()
HTTPServer(("127.0.0.1", ${RECEIVER_PORT}), Receiver).serve_forever()'`;

const NODE_RECEIVER = `node -e '
require("http").createServer((request, response) => {
  console.log(request.headers);
  request.pipe(process.stdout, { end: false });
  request.on("end", () => response.writeHead(204).end());
}).listen(${RECEIVER_PORT}, "127.0.0.1")'`;
