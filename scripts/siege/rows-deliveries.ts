import { setTimeout as sleep } from "node:timers/promises";

import type { AttackJob } from "./attack-job.ts";
import { HANGS, SLOW } from "./hosts.ts";
import { DEAD_ZONE, hostName } from "./name-server.ts";
import { ACCOUNT_FROM, NUMBERS, job, posting, type SiegeRow } from "./row.ts";
import { TELLING, type Target } from "./target.ts";

/** Blocks of loopback addresses: of the attacker's hosts, of the one that two accounts share. */
const ATTACKED_BLOCK = 9;
export const SHARED_HOST = hostName(0, 10);

const TASKS_PER_POST = 100;
const DISABLED_LOGIN = "disabled";
const FLOWING_MS = 2000;
const LOOKED_AT_MS = 6000;

/** Attacks of an account with webhooks to hosts that have names. */
export const ROWS_OF_DELIVERIES: readonly SiegeRow[] = [
  {
    name: "hanging-hosts",
    who: "account",
    what: "2,000 tasks to 2,000 hosts that accept and never answer; the other's webhooks go to new hosts",
    prepare: (target) => hanging(target, 2000),
    webhooks: { to: "new" },
  },
  {
    name: "hanging-hosts-restart",
    who: "account",
    what: "4,000 such tasks and kill -9; the other's webhooks go to hosts known before",
    prepare: (target) => hanging(target, 4000),
    webhooks: { to: "known", isRestarted: true },
  },
  {
    name: "dead-names",
    who: "account",
    what: "1,000 names whose name server is dead; the other's webhooks go to new hosts",
    prepare: (target) => {
      const urlOf = (index: number): string => target.hostUrl(`h${index}.${DEAD_ZONE}`, HANGS);
      return posts(target, { login: "dead-names", tasks: webhookTasks(1000, urlOf) });
    },
    webhooks: { to: "new" },
  },
  {
    name: "shared-host",
    who: "account",
    what: "300 tasks that hang at a host, to which the other's webhooks go as well",
    prepare: (target) => {
      const url = target.hostUrl(SHARED_HOST, HANGS);
      return posts(target, { login: "sharer", tasks: webhookTasks(300, () => url) });
    },
    webhooks: { to: "shared" },
  },
  {
    name: "disabled",
    who: "account",
    what: "2,000 webhooks and 200 commands of an account that is disabled meanwhile",
    prepare: (target) => {
      const url = target.hostUrl(hostName(0, ATTACKED_BLOCK + 2), SLOW);
      const commands = Array.from({ length: 200 }, () => ({ type: TELLING, input: {} }));
      const tasks = [...commands, ...webhookTasks(2000, () => url)];
      return posts(target, { login: DISABLED_LOGIN, tasks });
    },
    meanwhile: async (target) => {
      await sleep(FLOWING_MS);
      const isDisabled = await target.admin(["account", "disable", DISABLED_LOGIN]);
      const [webhooks, commands] = [await target.hosts.ask("count", SLOW), target.commandStarts];
      await sleep(LOOKED_AT_MS);
      const more = (await target.hosts.ask("count", SLOW)) - webhooks;
      const started = target.commandStarts - commands;
      const when = isDisabled ? "after disabling" : "although disabling was refused";
      return `in the 6 s ${when} ${more} webhooks and ${started} commands (before ${webhooks} and ${commands})`;
    },
  },
];

function hanging(target: Target, count: number): Promise<AttackJob> {
  const urlOf = (index: number): string => target.hostUrl(hostName(index, ATTACKED_BLOCK), HANGS);
  return posts(target, { login: `hanging-${count}`, tasks: webhookTasks(count, urlOf) });
}

function webhookTasks(count: number, urlOf: (index: number) => string): readonly object[] {
  return Array.from({ length: count }, (_, i) => ({
    type: "echo",
    input: {},
    postback_url: urlOf(i),
  }));
}

async function posts(
  target: Target,
  { login, tasks }: { readonly login: string; readonly tasks: readonly object[] },
): Promise<AttackJob> {
  const { key: secret } = await target.account(login);
  const { head } = posting("/v1/tasks/task_post", { ...NUMBERS, bytes: 0, secret });
  const bodies = Array.from({ length: Math.ceil(tasks.length / TASKS_PER_POST) }, (_, i) =>
    JSON.stringify(tasks.slice(i * TASKS_PER_POST, (i + 1) * TASKS_PER_POST)),
  );
  const request = { head, body: null };
  return job(target, { shape: "post", from: ACCOUNT_FROM, connections: 1, request, bodies });
}
