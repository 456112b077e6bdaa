import { spawn } from "node:child_process";
import { Socket } from "node:net";

import { type AllowList, parseAllowList } from "../domain/address/allow-list.ts";
import { judgeWebhookUrl } from "../domain/webhook/webhook-url.ts";

export interface Greeted {
  readonly url: string;
  readonly account: string;
  readonly key: string;
  readonly inbox_url: string;
  readonly dashboard_url: string | null;
}

interface GreetedConfig {
  readonly types: ReadonlyMap<string, { readonly name: string; readonly kind: string }>;
  readonly webhooks: { readonly allowList: AllowList };
}

/** The text that a terminal shows below the ready line: commands that work when they are pasted. */
export function greeting(ready: Greeted, { types, webhooks }: GreetedConfig): string {
  const { url, account, key, inbox_url: inbox, dashboard_url: dashboard } = ready;
  const policy = { allow: webhooks.allowList, ownNames: [], ownAddresses: [] };
  // With --strict-targets, a task with this URL would be refused.
  const hasInbox = judgeWebhookUrl(inbox, policy).kind === "allowed";
  const task = JSON.stringify([{ ...typeToName(types), ...(hasInbox && { postback_url: inbox }) }]);
  const curl = `curl -u ${account}:${key}`;
  const post = `${curl} -H 'Content-Type: application/json' -d '${task}' ${url}/v1/tasks/task_post`;
  const [aim, look] = hasInbox
    ? ["its webhook", `curl '${url}/dev/inbox/${account}?wait=10'`]
    : ["its result", `${curl} ${url}/v1/tasks/tasks_ready`];
  return (
    `\nA throwaway daemon for tests: every client of its port controls it.\n\n` +
    (dashboard === null ? "" : `Dashboard: ${dashboard}\n\n`) +
    `Post a task, and see ${aim}:\n\n  ${post}\n  ${look}\n\n`
  );
}

/** A task must name its type where there are several; one that the daemon runs itself ends without a worker. */
function typeToName(types: GreetedConfig["types"]): { readonly type?: string } {
  const [first, ...others] = types.values();
  if (first === undefined || others.length === 0) return {};
  const own = [first, ...others].find(({ kind }) => kind !== "worker");
  return { type: (own ?? first).name };
}

// Its stdin closes when this process ends, also when nothing of this process can do anything about that.
const WATCHER = 'read -r _; rm -rf -- "$1"';

/** Removes a folder when this process has ended, by any signal. The machine must have a shell. */
export function removeAfterwards(folder: string): void {
  const watcher = spawn("/bin/sh", ["-c", WATCHER, "sh", folder], {
    stdio: ["pipe", "ignore", "ignore"],
    // A signal for the group, such as Ctrl-C, must not end it first.
    detached: true,
    cwd: "/",
  });
  for (const each of [watcher, watcher.stdin]) each.on("error", () => {});
  watcher.unref();
  // A pipe is a socket to Node, which would keep the process alive.
  if (watcher.stdin instanceof Socket) watcher.stdin.unref();
}

const OWN_TARGETS = [
  ...["localhost", "127.0.0.0/8", "::1"],
  ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
];

interface Opened {
  /** The address or the name on which the daemon listens, for its inbox. */
  readonly host: string;
  readonly webhooks: { readonly allow: readonly string[]; readonly allowList: AllowList };
}

/** The configuration of a daemon that may also send webhooks to the receivers of tests. */
export function withOwnTargets<Config extends Opened>(config: Config): Config {
  const { host, webhooks } = config;
  // An address with a zone cannot be a target.
  const own = parseAllowList([host]).kind === "fault" ? [] : [host];
  const verdict = parseAllowList([...webhooks.allow, ...OWN_TARGETS, ...own]);
  if (verdict.kind === "fault") throw new Error("these targets can be read");
  return { ...config, webhooks: { ...webhooks, allowList: verdict.list } };
}
