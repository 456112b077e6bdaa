import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

import { defineCommand, names, number, reasonOf } from "../../kit/command.ts";
import type { DaemonPlace } from "../../kit/daemon.ts";
import { markdownTable, megabytes, spreadOf, type Spread } from "../../kit/measure.ts";
import { Attacker, countUp, type AttackOrder, type Tally } from "./attacker.ts";
import { OtherAccount, VitalsWatch, type OtherFigures } from "./observer.ts";
import { SIEGE_ROWS, type SiegeRow } from "./rows.ts";
import { Target, webhookProbe, type WebhookLatencies } from "./target.ts";

const ALONE_SECONDS = 3;
// A daemon that pauses for longer does not come back.
const SETTLED_SECONDS_MAX = 120;
/** All is as before if reads take no more than this, or than the slowest read before the attack. */
const AS_BEFORE_MS = 50;
const OTHER_LOGIN = "other";

export const siege = defineCommand({
  about: `What an account sees of postbackd while an attack goes on: row by row, each against a daemon of its own.`,
  flags: {
    seconds: number("of each attack", 10),
    only: names(
      "rows",
      SIEGE_ROWS.map(({ name }) => name),
    ),
  },
  program: "binary",
  async run({ only, seconds }, { place, note, print }) {
    const results: RowResult[] = [];
    const lines: string[] = [];
    for (const row of SIEGE_ROWS.filter(({ name }) => only.includes(name))) {
      try {
        const result = await runRow(row, place, seconds);
        results.push(result);
        lines.push(lineOf(result));
        note(`${tableOf([result]).split("\n").at(-1)}\n${lineOf(result)}`);
      } catch (error) {
        // The other rows are worth their time.
        lines.push(`- \`${row.name}\` was not measured: ${reasonOf(error)}`);
        note(lines.at(-1) ?? "");
        process.exitCode = 1;
      }
    }
    print(`${tableOf(results)}\n\n${lines.join("\n")}\n\n${seconds} s each.`);
  },
});

/** The observations before and during an attack. */
interface RowResult {
  readonly row: SiegeRow;
  readonly alone: OtherFigures;
  readonly during: OtherFigures;
  /** The other account's webhooks; null if they were not measured. */
  readonly webhooks: { readonly alone: WebhookLatencies; readonly during: WebhookLatencies } | null;
  readonly attacker: Tally;
  readonly vitals: VitalsWatch["seen"];
  readonly rssBytesBefore: number;
  /** From the end of the attack until all was as before; null if that took too long. */
  readonly settledMs: number | null;
  /** The longest pause of this process's event loop. */
  readonly ownDelayMs: number;
  readonly notes: readonly string[];
}

const FROM_MANY = Array.from({ length: 16 }, (_, i) => `127.0.3.${i + 1}`);
/** Addresses of attackers: many of an account, because its limits do not go by address. */
const FROM = {
  "no key": ["127.0.0.2"],
  account: FROM_MANY,
  service: FROM_MANY,
  worker: ["127.0.0.4"],
} as const;

/** Measures one row against a daemon of its own: the other account alone, then next to the attack. */
async function runRow(row: SiegeRow, place: DaemonPlace, seconds: number): Promise<RowResult> {
  await using target = await Target.create(place, row.limits ?? []);
  await row.fill?.(target, row.name);
  await target.start();
  const order = await prepareAttack(row, target);
  const { key } = await target.account(OTHER_LOGIN);
  const [taskId = ""] = await target.post(OTHER_LOGIN, [{ type: "echo", input: { n: 1 } }]);
  await target.untilTasks(`id = '${taskId}' AND state = 'completed'`);
  using other = new OtherAccount({ key, taskId }, target.daemon.port);
  using attacker = new Attacker();
  const danger = Promise.withResolvers<void>();
  const notes: string[] = [];
  using watch = new VitalsWatch(target.daemon.pid, (why) => {
    if (!notes.some((note) => note.startsWith("ended"))) notes.push(`ended early: ${why}`);
    danger.resolve();
  });
  const ownDelay = monitorEventLoopDelay({ resolution: 10 });
  const probe =
    row.webhooks === undefined ? null : webhookProbe(target, OTHER_LOGIN, row.webhooks.to);
  const measure = async (forSeconds: number): Promise<WebhookLatencies> => {
    if (probe !== null) return probe(forSeconds);
    await Promise.race([sleep(forSeconds * 1000), danger.promise]);
    return [];
  };
  const aloneFrom = performance.now();
  const webhooksAlone = await measure(ALONE_SECONDS);
  const from = performance.now();
  const alone = other.figures(aloneFrom, from);
  const rssBytesBefore = watch.seen.rssBytes;
  watch.reset();
  ownDelay.enable();
  await attacker.ask("begin", order);
  const until = sleep(seconds * 1000, undefined, { ref: false });
  if (row.webhooks?.isRestarted === true) {
    await target.daemon.kill();
    await target.start();
    other.port = target.daemon.port;
    watch.pid = target.daemon.pid;
  }
  const measuring = measure(seconds);
  const meanwhile = row.meanwhile?.(target, row.name);
  await Promise.race([until, danger.promise]);
  if (meanwhile !== undefined) notes.push(await meanwhile);
  const webhooksDuring = await measuring;
  const to = performance.now();
  const answers = await attacker.ask("end");
  if (row.after !== undefined) notes.push(await row.after(target, row.name));
  const { isRunning } = target.daemon;
  const settledMs = await other.settled(to, {
    msMax: Math.max(AS_BEFORE_MS, alone.get.maxMs),
    waitMs: isRunning ? SETTLED_SECONDS_MAX * 1000 : 0,
  });
  ownDelay.disable();
  if (!target.daemon.isRunning) notes.push("the daemon died");
  return {
    ...{ row, alone, during: other.figures(from, to), attacker: answers, notes },
    ...{ vitals: watch.seen, rssBytesBefore, settledMs, ownDelayMs: ownDelay.max / 1e6 },
    webhooks: probe && { alone: webhooksAlone, during: webhooksDuring },
  };
}

async function prepareAttack(row: SiegeRow, target: Target): Promise<AttackOrder> {
  const { name, who, attack } = row;
  const secret =
    who === "no key"
      ? undefined
      : who === "worker"
        ? await target.workerToken()
        : (await target.account(name)).key;
  const made = typeof attack === "function" ? await attack(target, name) : attack;
  return { attack: made, from: FROM[who], secret, port: target.daemon.port };
}

const COLUMNS = [
  "row",
  "who",
  "task_get alone p50 / p99 / worst ms",
  "meanwhile p50 / p99 / worst ms",
  "task_post p50 / worst ms",
  "refused, closed or unanswered",
  "/livez worst ms",
  "RSS MB before / most / after",
  "sockets' most MB in the kernel",
  "descriptors' most",
  "as before after s",
];

/** The other account's latencies alone and during the attack, and the cost. */
function tableOf(results: readonly RowResult[]): string {
  const cells = results.map(({ row, alone, during, vitals, rssBytesBefore, settledMs }) => {
    const bad = { ...during.get.bad };
    for (const [what, times] of Object.entries(during.post.bad)) countUp(bad, what, times);
    return [
      row.name,
      row.who,
      spreadText(alone.get),
      spreadText(during.get),
      shortText(during.post),
      tallyText(bad),
      ms(during.livez.maxMs),
      [rssBytesBefore, vitals.rssBytesMax, vitals.rssBytes].map(megabytes).join(" / "),
      megabytes(vitals.kernelBytesMax),
      String(vitals.descriptorsMax),
      settledMs === null ? "never" : (settledMs / 1000).toFixed(1),
    ];
  });
  return markdownTable(COLUMNS, cells, 2);
}

/** The attacker's responses, and other observations. */
function lineOf({ row, attacker, webhooks, notes, ownDelayMs }: RowResult): string {
  const sent = webhooks === null ? [] : [webhookText(webhooks)];
  const own = `the measuring loop paused ${ms(ownDelayMs)} ms at most`;
  const all = [`attacker: ${tallyText(attacker)}`, ...sent, ...notes, own];
  return `- \`${row.name}\`: ${row.what}. ${all.join("; ")}.`;
}

function webhookText({ alone, during }: NonNullable<RowResult["webhooks"]>): string {
  const arrived = (all: WebhookLatencies): Spread => spreadOf(all.filter((each) => each !== null));
  const [before, then] = [arrived(alone), arrived(during)];
  const times = (then.p50Ms / Math.max(1, before.p50Ms)).toFixed(1);
  const missing = during.length - then.count;
  const lost = missing === 0 ? "" : `, ${missing} of ${during.length} not arrived in 150 s`;
  return `webhooks p50 / worst ${shortText(before)} ms alone, ${shortText(then)} ms meanwhile, ${times} ×${lost}`;
}

function spreadText({ p50Ms, p99Ms, maxMs }: Spread): string {
  return [p50Ms, p99Ms, maxMs].map(ms).join(" / ");
}

function shortText({ p50Ms, maxMs }: Spread): string {
  return `${ms(p50Ms)} / ${ms(maxMs)}`;
}

/** How often each outcome came: `200 × 41300, 3 × closed`. */
function tallyText(tally: Tally): string {
  const texts = Object.entries(tally).map(([what, times]) => `${times} × ${what}`);
  return texts.length === 0 ? "–" : texts.join(", ");
}

function ms(value: number): string {
  return value < 100 ? value.toFixed(1) : Math.round(value).toString();
}
