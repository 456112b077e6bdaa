import { setTimeout as sleep } from "node:timers/promises";

import { runAttack } from "./attack-run.ts";
import type { AttackResult } from "./figures.ts";
import { Honest, type HonestReport } from "./honest.ts";
import type { SiegeRow } from "./row.ts";
import type { SiegeOptions } from "./siege-run.ts";
import { Target } from "./target.ts";

/** The options of a run of all rows together. */
export interface TogetherOptions extends SiegeOptions {
  readonly rows: readonly SiegeRow[];
  readonly honest: number;
  readonly onNews: (text: string) => void;
}

/** What everybody saw while all rows ran together. */
export interface TogetherResult extends AttackResult {
  readonly honestAccounts: number;
  readonly honest: { readonly alone: HonestReport; readonly during: HonestReport };
}

const HONEST_PER_SECOND = 10;
const CLI_AT_ONCE = 4;
const AS_BEFORE_MS = 100;
// The first requests of every connection and account pay for code that is not compiled yet.
const WARM_UP_MS = 3000;
// An attacker that finds no limit must not fill the disk.
const LIMITS = ['database_size = "8GiB"'];

/** Runs all rows that need no restart against one daemon, beside honest accounts. */
export async function runTogether(options: TogetherOptions): Promise<TogetherResult> {
  const { seconds, aloneSeconds, settledSecondsMax, onNews } = options;
  const rows = options.rows.filter(({ webhooks }) => webhooks?.isRestarted !== true);
  await using target = await Target.create(options.place, LIMITS);
  for (const row of rows) await row.fill?.(target);
  await target.start();
  const keys = await honestKeys(target, options.honest);
  const attacks = [];
  for (const row of rows) attacks.push({ row, job: await row.prepare(target) });
  onNews(`${attacks.length} attacks and ${keys.length} honest accounts are prepared`);
  using honest = new Honest();
  await honest.ask("begin", { port: target.daemon.port, keys, perSecond: HONEST_PER_SECOND });
  const reports: HonestReport[] = [];
  const result = await runAttack({
    target,
    attacks,
    webhooks: { to: "new", seconds: seconds / 2 },
    seconds,
    aloneSeconds,
    settledSecondsMax,
    asBeforeMs: AS_BEFORE_MS,
    async onPhase(phase) {
      if (phase === "alone") await sleep(WARM_UP_MS);
      if (phase === "attack") onNews("the attacks begin");
      reports.push(await honest.ask(phase === "over" ? "end" : "mark"));
    },
  });
  const [, alone, during] = reports;
  if (alone === undefined || during === undefined) throw new Error("nobody was honest");
  return { ...result, honestAccounts: options.honest, honest: { alone, during } };
}

async function honestKeys(target: Target, count: number): Promise<readonly string[]> {
  const keys: string[] = [];
  for (let made = 0; made < count; made += CLI_AT_ONCE) {
    const logins = Array.from({ length: Math.min(CLI_AT_ONCE, count - made) }, (_, i) => made + i);
    const some = await Promise.all(logins.map((index) => target.account(`honest-${index}`)));
    keys.push(...some.map(({ key }) => key));
  }
  return keys;
}
