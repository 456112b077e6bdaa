import type { DaemonPlace } from "../kit/daemon-file.ts";
import { runAttack } from "./attack-run.ts";
import type { RowResult } from "./figures.ts";
import type { SiegeRow } from "./row.ts";
import { Target } from "./target.ts";

/** The options of a measurement. */
export interface SiegeOptions {
  readonly place: DaemonPlace;
  /** How long the attack lasts, and how long the other is measured alone before it. */
  readonly seconds: number;
  readonly aloneSeconds: number;
  /** How long to wait, after an attack, until all is as before. */
  readonly settledSecondsMax: number;
}

const AS_BEFORE_MS = 50;

/** Measures one row against a daemon of its own. */
export async function runRow(row: SiegeRow, options: SiegeOptions): Promise<RowResult> {
  await using target = await Target.create(options.place, row.limits ?? []);
  await row.fill?.(target);
  await target.start();
  const { seconds, aloneSeconds, settledSecondsMax } = options;
  const { name, who, what, after } = row;
  const result = await runAttack({
    target,
    attacks: [{ row, job: await row.prepare(target) }],
    webhooks: row.webhooks === undefined ? null : { ...row.webhooks, seconds },
    seconds,
    aloneSeconds,
    settledSecondsMax,
    asBeforeMs: AS_BEFORE_MS,
    ...(after && { after }),
  });
  return { ...result, name, who, what, attacker: result.attackers[name] ?? {} };
}
