import { Command } from "../part/control.tsx";
import { Panel } from "../part/panel.tsx";
import { NewTask } from "../post/post-dialog.tsx";
import { call } from "../shell/api.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { hrefOf, tasksPath } from "../shell/route.ts";
import { isOperator, shownAccount } from "../shell/session.ts";
import { shellQuoted } from "../task/snippet.ts";
import { isRefused } from "../task/task-facts.tsx";

// No report comes of an account that a command makes.
const POLL_MS = 5000;

/** The first steps, until a task is accepted. */
export function NoTask() {
  const { data: start } = useResource("start", readStart, { pollMs: POLL_MS });
  if (start === null || start.hasAccepted) return null;
  const { hasRefused } = start;
  return (
    <Panel
      title={hasRefused ? "No accepted task yet" : "No task yet"}
      tools={start.hasAccount && <NewTask />}
    >
      <div class="panel-body stack">
        {hasRefused && (
          <p>
            Every task so far was refused when it was posted.{" "}
            <a href={hrefOf(tasksPath(FAILED))}>See why</a>
          </p>
        )}
        {start.hasAccount ? <PostFirst types={start.types} /> : <MakeAccount />}
      </div>
    </Panel>
  );
}

const FAILED = "state:failed";
const NOT_FAILED = "state:queued,running,completed,cancelled";

async function readStart(load: Load) {
  const [{ tasks: others }, { tasks: failed }, { types }, hasAccount] = await Promise.all([
    call("GET /v1/tasks/search", { ...load, query: { q: NOT_FAILED, limit: 1 } }),
    call("GET /v1/tasks/search", { ...load, query: { q: FAILED } }),
    call("GET /v1/appendix/types", load),
    shownAccount.peek() !== null || hasAnyAccount(load),
  ]);
  const hasAccepted = others.length > 0 || failed.some((task) => !isRefused(task));
  return { hasAccepted, hasRefused: failed.length > 0, types, hasAccount };
}

// The operator's dashboard exists before the first account does.
async function hasAnyAccount(load: Load): Promise<boolean> {
  const { accounts } = await call("GET /v1/operator/accounts", { ...load, query: { limit: 1 } });
  return accounts.length > 0;
}

function MakeAccount() {
  return (
    <>
      <p>
        Tasks belong to accounts. Make the first one{" "}
        <a href={hrefOf("/accounts")}>under Accounts</a>, or on the daemon's machine, in the folder
        where it runs:
      </p>
      <Command text="postbackd admin account create LOGIN" />
    </>
  );
}

function PostFirst({ types }: { readonly types: readonly string[] }) {
  return (
    <>
      <p>
        Post the first one here, or from a terminal with{" "}
        {isOperator.value ? (
          "one of the account's API keys"
        ) : (
          <>
            one of <a href={hrefOf("/keys")}>your API keys</a>
          </>
        )}
        , which <code>export KEY=pbd_live_…</code> makes known to the command:
      </p>
      <Command text={postCommand(types[0])} />
      <p class="hint">
        Each type expects an input of its own; <a href="/docs">the API reference</a> has all fields
        of a task.
      </p>
    </>
  );
}

function postCommand(type: string | undefined): string {
  const body = JSON.stringify({ type, input: { hello: "world" } });
  return [
    `curl ${globalThis.location.origin}/v1/tasks/task_post \\`,
    '  -H "Authorization: Bearer $KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuoted(body)}`,
  ].join("\n");
}
