import type Database from "better-sqlite3";

import { Caller } from "../../kit/client.ts";
import {
  createDaemonFile,
  createWorker,
  pageHeaders,
  signInOperator,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
  type DaemonProcess,
} from "../../kit/daemon.ts";
import { copyRows, DatabaseView, editDatabase } from "../../kit/database.ts";
import { until } from "../../kit/until.ts";
import { BenchReceiver } from "../receiver.ts";

const MIB = 1024 * 1024;
// The most attempts of a delivery that are shown.
const ATTEMPTS = 100;
const HOSTS = 200;
const DONE_MS_MAX = 60_000;

/** The longest possible tag, in letters that are not Latin-1. */
export const TAG = "ш".repeat(255);
/** Tasks that start then stay queued. */
export const LATER = new Date(Date.now() + 86_400_000).toISOString();

/** Paths of the receiver: webhooks, webhooks that are refused, and a service. */
export const HOOK = "/hook";
const REFUSING = "/refusing";
const SERVICE = "/service";

const WORKER_TYPES = ["leased", "kept", "batch", "large"];

function toml(serviceUrl: string): string {
  const ofWorkers = WORKER_TYPES.map(
    (type) => `[types.${type}]\nrunner = "worker"\nlease = "1h"\n`,
  );
  return `
[limits]
access_requests_per_hour = 0

[types.ascii]
command = ["sh", "-c", 'printf "\\""; head -c 4190000 /dev/zero | tr "\\0" x; printf "\\""']

[types.wide]
command = ["sh", "-c", 'printf "\\""; yes ш | head -n 1390000 | tr -d "\\n"; printf "\\""']

[types.service]
url = "${serviceUrl}"

${ofWorkers.join("")}`;
}

/** A daemon whose file holds as much as the most expensive requests need, and its clients. */
export interface World {
  readonly daemon: DaemonProcess;
  readonly receiver: BenchReceiver;
  /** The URL of a path of the receiver. */
  readonly url: (path: string) => string;
  readonly view: DatabaseView;
  readonly anybody: Caller;
  readonly owner: Caller;
  readonly worker: Caller;
  readonly operator: Caller;
  readonly account: DaemonFile["account"];
  readonly ids: Awaited<ReturnType<typeof fill>>;
}

/** Makes a daemon's file, fills it, and calls `use` with the daemon that serves it. */
export async function withWorld(
  place: DaemonPlace,
  use: (world: World) => Promise<void>,
): Promise<void> {
  using receiver = new BenchReceiver();
  const port = await receiver.ask("open");
  const url = (path: string): string => `http://127.0.0.1:${port}${path}`;
  const service = httpResponse("200 OK", `"${"x".repeat(4_000_000)}"`);
  // The stored part of a response ends far before its end.
  const refusal = httpResponse("500 Internal Server Error", "ä".repeat(32 * 1024));
  const paths = { [SERVICE]: { response: service }, [REFUSING]: { response: refusal } };
  await receiver.ask("behave", { paths });
  const file = await createDaemonFile(place, { more: toml(url(SERVICE)) });
  const token = await createWorker({ name: "worker", types: WORKER_TYPES }, file);
  const ids = await fill(file, url);
  editDatabase(file.database, (database) => {
    fillTraffic(database);
    multiply(database, ids.tried);
  });
  await using daemon = await startDaemon(file);
  using view = new DatabaseView(file.database);
  const cookie = await signInOperator({ file, daemon });
  await use({
    ...{ daemon, receiver, url, view, ids, account: file.account },
    anybody: new Caller(daemon.url),
    owner: Caller.withKey(daemon.url, file.account.key),
    worker: Caller.withKey(daemon.url, token),
    operator: new Caller(daemon.url, pageHeaders(cookie)),
  });
  await daemon.stop();
}

function httpResponse(status: string, body: string): string {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json`;
  return `${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

async function fill(file: DaemonFile, url: World["url"]) {
  await using daemon = await startDaemon(file);
  const owner = Caller.withKey(daemon.url, file.account.key);
  const refusing = { postback_url: url(REFUSING), pingback_url: url(REFUSING) };
  const longUrl = `https://example.com/${"x".repeat(1900)}`;
  const [ascii = ""] = await owner.postTasks({ type: "ascii", postback_url: url(HOOK) });
  const [wide = ""] = await owner.postTasks({ type: "wide" });
  const [tried = ""] = await owner.postTasks({ type: "ascii", ...refusing });
  const input = "ш".repeat(MIB / 2 - 200);
  const [parked = ""] = await owner.postTasks({ type: "echo", start_at: LATER, input });
  await owner.postTasks({ tag: TAG, type: "echo", start_at: LATER, postback_url: longUrl }, 1000);
  await owner.postTasks({ tag: TAG, type: "echo" }, 1000);
  using view = new DatabaseView(file.database);
  await untilNone(view, "tasks WHERE state IN ('queued', 'running')");
  await untilNone(view, "attempts WHERE retry = 0 AND ended_at IS NULL");
  await daemon.stop();
  return {
    /** With a result of 4 MiB, and a webhook that arrived. */
    ascii,
    /** With a result of 2.8 MB that is not Latin-1. */
    wide,
    /** With an input of 1 MiB; queued. */
    parked,
    /** With a result of 4 MiB, and two webhooks of a hundred attempts each. */
    tried,
  };
}

/** Settles when no such row is left. */
export async function untilNone(view: DatabaseView, what: string): Promise<void> {
  const isNone = (): boolean => view.number(`SELECT count(*) FROM ${what}`) === 0;
  await until(isNone, { msMax: DONE_MS_MAX, everyMs: 2, fault: () => `there still are ${what}` });
}

// To make them one by one would take minutes of retries, and real hosts.
function multiply(database: Database.Database, tried: string): void {
  database.exec("DELETE FROM attempts WHERE started_at IS NULL");
  copyRows(database, {
    table: "attempts",
    where: `task_seq = (SELECT seq FROM tasks WHERE id = '${tried}')`,
    times: ATTEMPTS - 1,
    anew: { seq: "NULL", number: "number + n.i" },
  });
  database.exec("UPDATE deliveries SET ended = 'given_up' WHERE ended IS NULL");
  const where = "at = (SELECT max(at) FROM host_traffic)";
  const host = "printf('%060d.%060d.example.com', n.i, n.i)";
  copyRows(database, { table: "host_traffic", where, times: HOSTS, anew: { host } });
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAYS = 30;
const MINUTES_KEPT = 25 * 60;
const TRAFFIC_HOSTS = 20;
// By bucket, of 2,000 attempts.
const DURATIONS = JSON.stringify([
  0, 0, 0, 4, 16, 80, 240, 420, 460, 300, 180, 120, 80, 40, 20, 12, 8, 6, 4, 4, 2, 2, 2,
]);

/** Writes the traffic of an account, and of all together, that was busy in every minute for thirty days. */
function fillTraffic(database: Database.Database): void {
  const now = Date.now();
  const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
  const minute = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const oldestMinute = minute - MINUTES_KEPT * MINUTE_MS;
  const total = database.prepare(`
    INSERT OR REPLACE INTO traffic (account_seq, step_ms, at, posted, completed, failed, cancelled,
      first_attempts, first_delivered, delivered, given_up, refused, queued, oldest_ms, durations_text)
    VALUES (?, ?, ?, 2000, 1980, 20, 0, 2000, 1950, 1980, 20, 0, 30, 1200, '${DURATIONS}')`);
  const ofHost = database.prepare(`
    INSERT OR REPLACE INTO host_traffic (account_seq, at, host, attempts, succeeded, durations_text)
    VALUES (?, ?, ?, 2000, 1950, '${DURATIONS}')`);
  for (const account of [0, 1]) {
    for (let at = hour - DAYS * 24 * HOUR_MS; at < hour; at += HOUR_MS) {
      if (at < oldestMinute) total.run(account, HOUR_MS, at);
      for (let i = 0; i < TRAFFIC_HOSTS; i++) ofHost.run(account, at, `receiver-${i}.example.com`);
    }
    for (let at = oldestMinute; at < minute; at += MINUTE_MS) total.run(account, MINUTE_MS, at);
  }
}
