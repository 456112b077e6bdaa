import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { NUMBERS, type Attack } from "./attacker.ts";
import { DEAD_ZONE, hostName } from "./name-server.ts";
import {
  CHUNKY,
  HANGS,
  NUMEROUS,
  SHARED_HOST,
  SLOW,
  TELLING,
  UNCLAIMED,
  type Target,
} from "./target.ts";

/** One row of the table: who does what, and how it is measured. Accounts have the row's name as their login. */
export interface SiegeRow {
  readonly name: string;
  readonly who: "no key" | "account" | "worker" | "service";
  readonly what: string;
  /** Settings of `limits` that the row needs when it is alone, in TOML. */
  readonly limits?: readonly string[];
  /** Writes rows into the file that would take too long to post, before the final start of the daemon. */
  readonly fill?: (target: Target, login: string) => Promise<void>;
  /** The requests, once their data exists. The daemon serves. */
  readonly attack: Attack | ((target: Target, login: string) => Promise<Attack> | Attack);
  /** The webhooks of the other that are measured too. */
  readonly webhooks?: WebhookRule;
  /** Does something in the middle of the attack, and says what came of it. */
  readonly meanwhile?: (target: Target, login: string) => Promise<string>;
  /** As `meanwhile`, when the attack is over. */
  readonly after?: (target: Target, login: string) => Promise<string>;
}

/** The receiver of the other account's webhooks. */
export interface WebhookRule {
  /** `new`: each to a host of its own; `known`: to hosts that have answered before; `shared`: to the attacker's. */
  readonly to: "new" | "known" | "shared";
  /** The daemon is killed and started again when the attack is under way. */
  readonly isRestarted?: boolean;
}

const MIB = 1024 * 1024;
const JSON_OF_MIB = { ...NUMBERS, bytes: MIB };
const TASK_POST = "POST /v1/tasks/task_post";
const ACCESS_REQUESTS = "POST /v1/access_requests";
const COMPLETE = "POST /v1/worker/complete";
const TASKS_PER_POST = 100;
const LIST_TASKS = 1000;
const READY_TASKS = 300_000;
const FLOWING_MS = 2000;
const LOOKED_AT_MS = 6000;
/** Blocks of loopback addresses of the attacker's hosts. */
const [HANGING_BLOCK, SLOW_BLOCK] = [9, 11];

/** Every row of the table, in its order: attacks without a key, of accounts, with their webhooks, of workers and services. */
export const SIEGE_ROWS: readonly SiegeRow[] = [
  {
    name: "slow-json",
    who: "no key",
    what: "4 connections send 5.2 MiB/s of `1e9,` to access_requests",
    attack: {
      shape: "repeat",
      connections: 4,
      perSecond: 5.2,
      line: ACCESS_REQUESTS,
      body: JSON_OF_MIB,
    },
  },
  {
    name: "json-burst",
    who: "no key",
    what: "200 bodies of 1 MiB of `1e9,` to access_requests, the last bytes together",
    attack: { shape: "burst", connections: 200, line: ACCESS_REQUESTS, body: JSON_OF_MIB },
  },
  {
    name: "sign-in-burst",
    who: "no key",
    what: "100 such bodies to the sign-in",
    attack: {
      shape: "burst",
      connections: 100,
      line: "POST /v1/session",
      // Without it the sign-in is refused before its body is read.
      headers: ["Sec-Fetch-Site: same-origin"],
      body: JSON_OF_MIB,
    },
  },
  {
    name: "unread-pages",
    who: "no key",
    what: "3,500 connections, each 20 pipelined GET /openapi.json, nothing read",
    attack: { shape: "unread", connections: 3500, pipelined: 20, line: "GET /openapi.json" },
  },
  {
    name: "endless-bodies",
    who: "no key",
    what: "3,800 bodies of 1 MiB that never end",
    attack: {
      shape: "hold",
      connections: 3800,
      line: ACCESS_REQUESTS,
      body: { ...JSON_OF_MIB, sent: "unfinished" },
    },
  },
  {
    name: "idle-connections",
    who: "no key",
    what: "4,096 kept connections after one GET /livez each",
    attack: { shape: "hold", connections: 4096, line: "GET /livez" },
    meanwhile: (target) => target.health(),
  },
  {
    name: "post-burst",
    who: "account",
    what: "200 bodies of 1 MiB of `1e9,` to task_post, the last bytes together",
    attack: {
      shape: "burst",
      connections: 200,
      line: TASK_POST,
      body: { start: '[{"type":"echo","input":[', element: "1e9,", end: "0]}]", bytes: MIB },
    },
  },
  {
    name: "unread-results",
    who: "account",
    what: "one result of 4 MB over 1,100 connections, nothing read",
    attack: async (target, login) => {
      const id = await target.finishedWith(login, `"${"x".repeat(4_000_000)}"`);
      return { shape: "unread", connections: 1100, line: `GET /v1/tasks/task_get/${id}` };
    },
  },
  {
    name: "unread-lists",
    who: "account",
    what: "GET /v1/tasks?limit=1000 over 3,500 connections, nothing read",
    attack: async (target, login) => {
      // As long as they may nearly be: 1,000 of them make a list of megabytes. None is ever sent.
      const url = target.hostUrl("127.0.0.1", `/${"u".repeat(1900)}`);
      const urls = { postback_url: url, pingback_url: url };
      const task = { type: UNCLAIMED, tag: "t".repeat(255), input: {}, ...urls };
      for (let posted = 0; posted < LIST_TASKS; posted += TASKS_PER_POST) {
        await target.post(login, Array<object>(TASKS_PER_POST).fill(task));
      }
      return { shape: "unread", connections: 3500, line: "GET /v1/tasks?limit=1000" };
    },
  },
  {
    name: "waits",
    who: "account",
    what: "4,096 connections with Prefer: wait=60 for a queued task",
    attack: async (target, login) => {
      const [id] = await target.post(login, [{ type: UNCLAIMED, input: {} }]);
      const line = `GET /v1/tasks/task_get/${id}`;
      return { shape: "hold", connections: 4096, line, headers: ["Prefer: wait=60"] };
    },
    meanwhile: (target) => target.health(),
  },
  {
    name: "fill-up",
    who: "account",
    what: "posts of 1 MiB from 4 connections, room for 128 MiB",
    limits: ['database_size = "128MiB"', 'account.bytes = "32MiB"'],
    attack: {
      shape: "repeat",
      connections: 4,
      line: TASK_POST,
      body: {
        start: `[{"type":"${UNCLAIMED}","input":{"x":"`,
        element: "x",
        end: '"}}]',
        bytes: MIB - 100,
      },
    },
    after: async (target, login) => {
      const megabytes = (): string =>
        `${(statSync(target.file.database).size / 1e6).toFixed(0)} MB`;
      const full = megabytes();
      const isDisabled = await target.admin(["account", "disable", login]);
      const isErased = await target.admin(["account", "erase", login, "--yes"]);
      const ends = `disable ${isDisabled ? "done" : "refused"}, erase ${isErased ? "done" : "not known"}`;
      return `file ${full}; ${ends}; then ${megabytes()}`;
    },
  },
  {
    name: "ready-filter",
    who: "account",
    what: "tasks_ready?tag=…&type=… over 300,000 ready tasks, 4 connections",
    fill: (target, login) => target.fillReady(login, "bulk", READY_TASKS),
    attack: {
      shape: "repeat",
      connections: 4,
      line: `GET /v1/tasks/tasks_ready?tag=bulk&type=${UNCLAIMED}`,
    },
  },
  {
    name: "large-results",
    who: "account",
    what: "50 task_get of 1.8 MB at once, again and again",
    attack: async (target, login) => {
      const id = await target.finishedWith(login, `[${"1e9,".repeat(450_000)}0]`);
      return { shape: "repeat", connections: 50, line: `GET /v1/tasks/task_get/${id}` };
    },
  },
  {
    name: "hanging-hosts",
    who: "account",
    what: "2,000 tasks to 2,000 hosts that accept and never answer; the other's webhooks go to new hosts",
    attack: (target) => webhooks(2000, hangingUrls(target)),
    webhooks: { to: "new" },
  },
  {
    name: "hanging-hosts-restart",
    who: "account",
    what: "4,000 such tasks and kill -9; the other's webhooks go to hosts known before",
    attack: (target) => webhooks(4000, hangingUrls(target)),
    webhooks: { to: "known", isRestarted: true },
  },
  {
    name: "dead-names",
    who: "account",
    what: "1,000 names whose name server is dead; the other's webhooks go to new hosts",
    attack: (target) => webhooks(1000, (index) => target.hostUrl(`h${index}.${DEAD_ZONE}`, HANGS)),
    webhooks: { to: "new" },
  },
  {
    name: "shared-host",
    who: "account",
    what: "300 tasks that hang at a host, to which the other's webhooks go as well",
    attack: (target) => webhooks(300, () => target.hostUrl(SHARED_HOST, HANGS)),
    webhooks: { to: "shared" },
  },
  {
    name: "disabled",
    who: "account",
    what: "2,000 webhooks and 200 commands of an account that is disabled meanwhile",
    attack: (target) => {
      const commands = Array<object>(200).fill({ type: TELLING, input: {} });
      return webhooks(2000, () => target.hostUrl(hostName(0, SLOW_BLOCK), SLOW), commands);
    },
    meanwhile: async (target, login) => {
      await sleep(FLOWING_MS);
      const isDisabled = await target.admin(["account", "disable", login]);
      const [sent, commands] = [await target.receiver.ask("requests", SLOW), target.commandStarts];
      await sleep(LOOKED_AT_MS);
      const more = (await target.receiver.ask("requests", SLOW)) - sent;
      const started = target.commandStarts - commands;
      const when = isDisabled ? "after disabling" : "although disabling was refused";
      return `in the 6 s ${when} ${more} webhooks and ${started} commands (before ${sent} and ${commands})`;
    },
  },
  {
    name: "worker-json",
    who: "worker",
    what: "16 MiB of `1e9,` to complete, again and again",
    attack: {
      shape: "repeat",
      connections: 1,
      line: COMPLETE,
      body: { ...NUMBERS, bytes: 16 * MIB },
    },
  },
  {
    name: "tiny-chunks",
    who: "worker",
    what: "32 connections of chunks of one byte, 1 MiB each",
    attack: {
      shape: "repeat",
      connections: 32,
      line: COMPLETE,
      body: { ...JSON_OF_MIB, element: "0,", sent: "chunked" },
    },
  },
  {
    name: "service-chunks",
    who: "service",
    what: "a service answers 32 requests at once with 1 MB in chunks of one byte",
    attack: posts(Array<object>(32).fill({ type: CHUNKY, input: {} })),
  },
  {
    name: "service-json",
    who: "service",
    what: "a service answers 16 requests at once with 4 MB of `1e9,`",
    attack: posts(Array<object>(16).fill({ type: NUMEROUS, input: {} })),
  },
];

function hangingUrls(target: Target): (index: number) => string {
  return (index) => target.hostUrl(hostName(index, HANGING_BLOCK), HANGS);
}

/** An account that posts so many tasks with webhooks, after others. */
function webhooks(
  count: number,
  urlOf: (index: number) => string,
  others: readonly object[] = [],
): Attack {
  const tasks = Array.from({ length: count }, (_, i) => {
    return { type: "echo", input: {}, postback_url: urlOf(i) };
  });
  return posts([...others, ...tasks]);
}

function posts(tasks: readonly object[]): Attack {
  const bodies = Array.from({ length: Math.ceil(tasks.length / TASKS_PER_POST) }, (_, i) =>
    JSON.stringify(tasks.slice(i * TASKS_PER_POST, (i + 1) * TASKS_PER_POST)),
  );
  return { shape: "once", connections: 1, line: TASK_POST, bodies };
}
