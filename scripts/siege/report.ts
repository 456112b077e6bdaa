import { spreadOf, type Spread } from "../kit/durations.ts";
import { megabytes } from "../kit/figures.ts";
import { numberColumns, textTable } from "../kit/text-table.ts";
import type { TogetherResult } from "./all-at-once.ts";
import type { AttackTally } from "./attack-job.ts";
import type { Figures, OthersFigures, RowResult } from "./figures.ts";
import type { WebhookLatencies } from "./webhooks.ts";

/** The rows as a Markdown table: what the other saw alone and during the attack, and what that cost. */
export function siegeTable(results: readonly RowResult[]): string {
  const figures = numberColumns([
    "task_get alone p50 / p99 / worst ms",
    "meanwhile p50 / p99 / worst ms",
    "task_post p50 / worst ms",
    "refused, closed or unanswered",
    "/livez worst ms",
    "RSS MB before / most / after",
    "sockets' most MB in the kernel",
    "descriptors' most",
    "as before after s",
  ]);
  const columns = [{ name: "row" }, { name: "who" }, ...figures];
  return textTable(columns, results.map(tableRow));
}

function tableRow(result: RowResult): string[] {
  const { name, who, alone, during, vitals, rssBytesBefore, rssBytesAfter, settledMs } = result;
  const bad = { ...during.get.bad };
  for (const [what, times] of Object.entries(during.post.bad)) {
    bad[what] = (bad[what] ?? 0) + times;
  }
  return [
    ...[name, who, spreadText(alone.get), spreadText(during.get)],
    `${ms(during.post.p50Ms)} / ${ms(during.post.maxMs)}`,
    tallyText(bad),
    ms(during.livez.maxMs),
    [rssBytesBefore, vitals.rssBytesMax, rssBytesAfter].map(megabytes).join(" / "),
    megabytes(vitals.kernelBytesMax),
    String(vitals.descriptorsMax),
    settledMs === null ? "never" : (settledMs / 1000).toFixed(1),
  ];
}

/** The attackers' answers, and other observations, a line for each row. */
export function siegeLines(results: readonly RowResult[]): string {
  const lines = results.map(({ name, what, attacker, webhooks, notes, ownDelayMs }) => {
    const sent = webhooks === null ? [] : [webhookText(webhooks)];
    const own = `the measuring loop stood ${ms(ownDelayMs)} ms at most`;
    const all = [`attacker: ${tallyText(attacker)}`, ...sent, ...notes, own];
    return `- \`${name}\`: ${what}. ${all.join("; ")}.`;
  });
  return lines.join("\n");
}

/** The figures of everybody while all rows ran together, as a Markdown table and lines. */
export function togetherText(result: TogetherResult): string {
  const { honest, webhooks, vitals, attackers, notes } = result;
  const figures = ["alone p50 / p99 / worst ms", "meanwhile p50 / p99 / worst ms"];
  const columns = [{ name: "who" }, ...numberColumns([...figures, "requests", "errors"])];
  const both = (of: (figures: OthersFigures) => Figures): string[] => {
    const { count, bad } = of(result.during);
    return [
      spreadText(of(result.alone)),
      spreadText(of(result.during)),
      String(count),
      tallyText(bad),
    ];
  };
  const { alone, during } = honest;
  const honestCells = [spreadText(alone.answers), spreadText(during.answers)];
  const table = textTable(columns, [
    [
      `${result.honestAccounts} honest accounts`,
      ...honestCells,
      String(during.answers.count),
      tallyText(during.bad),
    ],
    ["the other's task_get", ...both(({ get }) => get)],
    ["the other's task_post", ...both(({ post }) => post)],
    ["/livez", ...both(({ livez }) => livez)],
  ]);
  const settled =
    result.settledMs === null ? "never" : `${(result.settledMs / 1000).toFixed(1)} s later`;
  const sent = webhooks === null ? "" : ` The other's ${webhookText(webhooks)}.`;
  const lines = [
    `RSS ${megabytes(vitals.rssBytesMax)} MB at most, ${megabytes(result.rssBytesAfter)} after; sockets ${megabytes(vitals.kernelBytesMax)} MB in the kernel at most.`,
    `All as before: ${settled}.${sent}`,
    `The generator of the honest requests took ${(during.cpuShare * 100).toFixed(0)} % of a core.`,
    ...notes.map((note) => `${note}.`),
    ...Object.entries(attackers).map(([name, tally]) => `\`${name}\`: ${tallyText(tally)}.`),
  ];
  return `${table}\n\n${lines.map((line) => `- ${line}`).join("\n")}`;
}

function webhookText({ alone, during }: NonNullable<RowResult["webhooks"]>): string {
  const [before, then] = [arrived(alone), arrived(during)];
  const ratio =
    then.count === 0 ? "" : `, ${(then.p50Ms / Math.max(1, before.p50Ms)).toFixed(1)} ×`;
  const missing = during.filter((latency) => latency === null).length;
  const lost = missing === 0 ? "" : `, ${missing} of ${during.length} not arrived in 150 s`;
  return `webhooks p50 / worst ${spread(before)} ms alone, ${spread(then)} ms meanwhile${ratio}${lost}`;
}

function spread({ p50Ms, maxMs }: Spread): string {
  return `${ms(p50Ms)} / ${ms(maxMs)}`;
}

function arrived(latencies: WebhookLatencies): Spread {
  return spreadOf(latencies.filter((latency) => latency !== null));
}

function spreadText({ p50Ms, p99Ms, maxMs }: Spread): string {
  return [p50Ms, p99Ms, maxMs].map(ms).join(" / ");
}

/** How often what was answered: `200 × 41300, 3 × closed`. */
export function tallyText(tally: AttackTally): string {
  const texts = Object.entries(tally).map(([what, times]) => `${times} × ${what}`);
  return texts.length === 0 ? "–" : texts.join(", ");
}

function ms(value: number): string {
  return value < 100 ? value.toFixed(1) : Math.round(value).toString();
}
