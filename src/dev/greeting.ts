import type { AllowList } from "../domain/address/allow-list.ts";
import { judgeWebhookUrl } from "../domain/webhook/webhook-url.ts";

/** The part of the ready line that a greeting shows. */
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
    `\nA throwaway daemon for tests: whoever reaches its port controls it.\n\n` +
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
