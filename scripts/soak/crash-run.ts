import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import {
  createDaemonFile,
  daemonStart,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import { DaemonProcess } from "../kit/daemon-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { runLoad } from "../kit/load.ts";
import { acceptedIds, servedText, taskPostRequest } from "../kit/request.ts";
import {
  failingAtFirst,
  openReceiver,
  webhookUrls,
  type WebhookUrls,
} from "../kit/webhook-receiver.ts";
import { CarefulClient, type CarefulCount } from "./careful-client.ts";
import type { Explanation } from "./duplicates.ts";
import { inspectAnytime, type Inspection } from "./inspection.ts";
import { Ledger, type LedgerCount } from "./ledger.ts";
import { judgeSettled, settle } from "./settlement.ts";

/** How often to kill, and under what load. */
export interface CrashOptions {
  readonly place: DaemonPlace;
  /** kill -9 so often. */
  readonly rounds: number;
  readonly connections: number;
  /** A kill comes when so many tasks of its round are acknowledged, or some more. */
  readonly tasksBeforeKill: { readonly min: number; readonly max: number };
  /** Nothing may stand still for longer. */
  readonly stallMsMax: number;
  readonly onRound: (round: CrashRound) => void;
}

/** One start, load and kill; before every second one another start that is killed before it is ready, or soon after. */
export interface CrashRound {
  readonly readyMs: number;
  readonly acknowledged: number;
  /** Webhooks that were still missing when the kill came. */
  readonly missing: number;
}

/** The result: nothing was lost, or {@link runCrashes} rejects. */
export interface CrashReport extends Inspection, Explanation {
  /** kill -9, those while it started included. */
  readonly kills: number;
  readonly count: LedgerCount;
  readonly careful: CarefulCount;
  /** Cancellations that were acknowledged. */
  readonly cancelled: number;
  /** From the start of the process to its ready line, of every start after a kill. */
  readonly restartMs: readonly number[];
}

const POSTED = [1, 10, 100];
const KILL_DELAY_MS_MAX = 30;
const START_MS = 300;
const SETTINGS = { more: '\n[webhooks]\nretry_after = ["1s", "2s", "3s"]\n' };

// An eighth of the tasks has receivers that fail at first: retries and crashes meet in one series. Interrupted attempts
// count too, so that no series can run out of retries.
const statusOf = failingAtFirst(/[01]$/, 2);

/**
 * Kills a daemon again and again in the middle of the whole way from post to postback, always on one database
 * file, then lets it finish. Rejects with the reason when anything that was acknowledged is lost, comes
 * unsigned or wrong, comes twice without a crash to explain it, is made or sent although it must not, or when the file
 * is damaged or counts wrongly. A process that is killed loses nothing that the kernel
 * has taken from it: this shows what a crash of the program does, not what a power cut does.
 */
export async function runCrashes(options: CrashOptions): Promise<CrashReport> {
  const file = await createDaemonFile(options.place, SETTINGS);
  const ledger = new Ledger(file.account.webhookSecret);
  await using receiver = await openReceiver((...arrived) => ledger.receive(...arrived), {
    statusOf,
  });
  const webhooks = webhookUrls(receiver);
  const client = new CarefulClient({ apiKey: file.account.key, webhooks, ledger });
  const killedAt: number[] = [];
  const run = { file, ledger, client, webhooks, killedAt };
  const restartMs: number[] = [];
  for (let round = 0; round < options.rounds; round++) {
    if (round % 2 === 1) await crashWhileStarting(run, restartMs.at(-1) ?? START_MS);
    const done = await crashOnce(round, { ...run, options });
    if (round > 0) restartMs.push(done.readyMs);
    options.onRound(done);
  }
  restartMs.push(await finish(run, options));
  const { inspection, explanation, faults } = judgeSettled(file.database, { ledger, killedAt });
  if (faults.length > 0)
    throw new Error(`${faults.length} faults:\n${faults.slice(0, 10).join("\n")}`);
  const { count, cancelled } = ledger;
  const counts = { count, careful: client.count, cancelled: cancelled.size };
  return { ...inspection, ...explanation, ...counts, kills: killedAt.length, restartMs };
}

interface CrashRun {
  readonly file: DaemonFile;
  readonly ledger: Ledger;
  readonly client: CarefulClient;
  readonly webhooks: WebhookUrls;
  /** When each killed daemon was gone, in epoch milliseconds. */
  readonly killedAt: number[];
}

// A kill in the first half would only meet Node reading the program.
async function crashWhileStarting({ file, killedAt }: CrashRun, readyMs: number): Promise<void> {
  await DaemonProcess.startAndKill(daemonStart(file), readyMs * (0.5 + Math.random() / 2));
  killedAt.push(Date.now());
}

async function crashOnce(
  round: number,
  { options, ...run }: CrashRun & { readonly options: CrashOptions },
): Promise<CrashRound> {
  const { file, ledger, client, webhooks, killedAt } = run;
  await using daemon = await startDaemon(file);
  inspectAnytime(file.database, ledger).forEach((fault) => ledger.blame(fault));
  const before = ledger.count.acknowledged;
  const killAt = before + randomInt(options.tasksBeforeKill.min, options.tasksBeforeKill.max);
  const tasks = POSTED[round % POSTED.length] ?? 1;
  const request = { key: file.account.key, tasks, type: "echo", ...webhooks };
  const kills: Promise<void>[] = [];
  let missing = 0;
  const onAnswer = (message: HttpMessage): void => {
    for (const id of acceptedIds(servedText(message))) ledger.acknowledge(id);
    if (ledger.count.acknowledged >= killAt && kills.length === 0) kills.push(killSoon());
  };
  const killSoon = async (): Promise<void> => {
    await sleep(randomInt(KILL_DELAY_MS_MAX));
    missing = ledger.count.missing;
    await daemon.kill();
    killedAt.push(Date.now());
  };
  // Both until the kill breaks their connections.
  const load = runLoad({
    port: daemon.port,
    connections: options.connections,
    onAnswer,
    request: Buffer.from(taskPostRequest(request)),
    goesOn: () => true,
  });
  await Promise.all([load, client.run(daemon.url)]);
  if (kills.length === 0) throw new Error(`the daemon ended by itself: ${daemon.log}`);
  await Promise.all(kills);
  const acknowledged = ledger.count.acknowledged - before;
  return { readyMs: daemon.readyMs, acknowledged, missing };
}

/** Starts it once more, without load, until everything has arrived. Answers how long the start took. */
async function finish(
  { file, ledger, client }: CrashRun,
  { stallMsMax }: CrashOptions,
): Promise<number> {
  await using daemon = await startDaemon(file);
  await settle(daemon, { database: file.database, ledger, client, stallMsMax });
  return daemon.readyMs;
}
