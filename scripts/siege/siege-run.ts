import { setTimeout as sleep } from "node:timers/promises";

import type { DaemonPlace } from "../kit/daemon-file.ts";
import { prepareAttack, runAttack, type AttackResult, type SiegeTimes } from "./attack-run.ts";
import { Honest, type HonestReport } from "./honest.ts";
import type { SiegeRow } from "./rows.ts";
import { Target } from "./target.ts";

/** The options of a measurement. */
export interface SiegeOptions extends SiegeTimes {
  readonly place: DaemonPlace;
}

/** The measured figures of a row. */
export interface RowResult extends AttackResult {
  readonly row: SiegeRow;
}

/** What everybody saw while all rows ran together. */
export interface TogetherResult extends AttackResult {
  readonly honestAccounts: number;
  readonly honest: { readonly alone: HonestReport; readonly during: HonestReport };
}

const AS_BEFORE_MS = 50;
const TOGETHER_AS_BEFORE_MS = 100;
const HONEST_PER_SECOND = 10;
const CLI_AT_ONCE = 4;
// The first requests of every connection and account pay for code that is not compiled yet.
const WARM_UP_MS = 3000;
// An attacker that finds no limit must not fill the disk.
const LIMITS = ['database_size = "8GiB"'];

/** Measures one row against a daemon of its own. */
export async function runRow(row: SiegeRow, options: SiegeOptions): Promise<RowResult> {
  await using target = await Target.create(options.place, row.limits ?? []);
  await row.fill?.(target, row.name);
  await target.start();
  const { after } = row;
  const result = await runAttack({
    ...options,
    target,
    attacks: [{ row, order: await prepareAttack(row, target) }],
    webhooks: row.webhooks === undefined ? null : { ...row.webhooks, seconds: options.seconds },
    asBeforeMs: AS_BEFORE_MS,
    ...(after && { after: () => after(target, row.name) }),
  });
  return { ...result, row };
}

/** Runs all rows that need no restart against one daemon, beside honest accounts. */
export async function runTogether(
  all: readonly SiegeRow[],
  options: SiegeOptions & { readonly honest: number; readonly onNews: (text: string) => void },
): Promise<TogetherResult> {
  const { onNews, honest: honestAccounts } = options;
  const rows = all.filter(({ webhooks }) => webhooks?.isRestarted !== true);
  await using target = await Target.create(options.place, LIMITS);
  for (const row of rows) await row.fill?.(target, row.name);
  await target.start();
  const keys = await honestKeys(target, honestAccounts);
  const attacks = [];
  for (const row of rows) attacks.push({ row, order: await prepareAttack(row, target) });
  onNews(`${attacks.length} attacks and ${keys.length} honest accounts are prepared`);
  using honest = new Honest();
  await honest.ask("begin", { port: target.daemon.port, keys, perSecond: HONEST_PER_SECOND });
  const reports: HonestReport[] = [];
  const result = await runAttack({
    ...options,
    target,
    attacks,
    webhooks: { to: "new", seconds: options.seconds / 2 },
    asBeforeMs: TOGETHER_AS_BEFORE_MS,
    async onPhase(phase) {
      if (phase === "alone") await sleep(WARM_UP_MS);
      if (phase === "attack") onNews("the attacks begin");
      reports.push(await honest.ask(phase === "over" ? "end" : "mark"));
    },
  });
  const [, alone, during] = reports;
  if (alone === undefined || during === undefined) throw new Error("nobody was honest");
  return { ...result, honestAccounts, honest: { alone, during } };
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
