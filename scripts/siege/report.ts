import { spreadOf, type Spread } from "../kit/durations.ts";
import { megabytes } from "../kit/figures.ts";
import { numberColumns, textTable } from "../kit/text-table.ts";
import type { AttackResult } from "./attack-run.ts";
import type { Figures } from "./other.ts";
import { countUp, type Tally } from "./outcome.ts";
import type { RowResult, TogetherResult } from "./siege-run.ts";
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

function tableRow({ row, alone, during, vitals, ...result }: RowResult): string[] {
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
    [result.rssBytesBefore, vitals.rssBytesMax, vitals.rssBytes].map(megabytes).join(" / "),
    megabytes(vitals.kernelBytesMax),
    String(vitals.descriptorsMax),
    secondsText(result),
  ];
}

/** The attackers' answers, and other observations, a line for each row. */
export function siegeLines(results: readonly RowResult[]): string {
  const lines = results.map(({ row, attackers, webhooks, notes, ownDelayMs }) => {
    const sent = webhooks === null ? [] : [webhookText(webhooks)];
    const own = `the measuring loop stood ${ms(ownDelayMs)} ms at most`;
    const all = [`attacker: ${tallyText(attackers[row.name] ?? {})}`, ...sent, ...notes, own];
    return `- \`${row.name}\`: ${row.what}. ${all.join("; ")}.`;
  });
  return lines.join("\n");
}

/** The figures of everybody while all rows ran together, as a Markdown table and lines. */
export function togetherText(result: TogetherResult): string {
  const { alone, during, honest, webhooks, vitals, attackers, notes } = result;
  const figures = ["alone p50 / p99 / worst ms", "meanwhile p50 / p99 / worst ms"];
  const columns = [{ name: "who" }, ...numberColumns([...figures, "requests", "errors"])];
  const rows: readonly (readonly [string, Figures, Figures])[] = [
    [`${result.honestAccounts} honest accounts`, honest.alone, honest.during],
    ["the other's task_get", alone.get, during.get],
    ["the other's task_post", alone.post, during.post],
    ["/livez", alone.livez, during.livez],
  ];
  const cells = rows.map(([who, before, then]) => {
    return [who, spreadText(before), spreadText(then), String(then.count), tallyText(then.bad)];
  });
  const settled = result.settledMs === null ? "never" : `${secondsText(result)} s later`;
  const sent = webhooks === null ? "" : ` The other's ${webhookText(webhooks)}.`;
  const lines = [
    `RSS ${megabytes(vitals.rssBytesMax)} MB at most, ${megabytes(vitals.rssBytes)} after; sockets ${megabytes(vitals.kernelBytesMax)} MB in the kernel at most.`,
    `All as before: ${settled}.${sent}`,
    `The generator of the honest requests took ${(honest.during.cpuShare * 100).toFixed(0)} % of a core.`,
    ...notes.map((note) => `${note}.`),
    ...Object.entries(attackers).map(([name, tally]) => `\`${name}\`: ${tallyText(tally)}.`),
  ];
  return `${textTable(columns, cells)}\n\n${lines.map((line) => `- ${line}`).join("\n")}`;
}

function webhookText({ alone, during }: NonNullable<AttackResult["webhooks"]>): string {
  const [before, then] = [arrived(alone), arrived(during)];
  const times = (then.p50Ms / Math.max(1, before.p50Ms)).toFixed(1);
  const ratio = then.count === 0 ? "" : `, ${times} ×`;
  const missing = during.length - then.count;
  const lost = missing === 0 ? "" : `, ${missing} of ${during.length} not arrived in 150 s`;
  return `webhooks p50 / worst ${shortText(before)} ms alone, ${shortText(then)} ms meanwhile${ratio}${lost}`;
}

function arrived(latencies: WebhookLatencies): Spread {
  return spreadOf(latencies.filter((latency) => latency !== null));
}

function spreadText({ p50Ms, p99Ms, maxMs }: Spread): string {
  return [p50Ms, p99Ms, maxMs].map(ms).join(" / ");
}

function shortText({ p50Ms, maxMs }: Spread): string {
  return `${ms(p50Ms)} / ${ms(maxMs)}`;
}

function secondsText({ settledMs }: Pick<AttackResult, "settledMs">): string {
  return settledMs === null ? "never" : (settledMs / 1000).toFixed(1);
}

/** How often what was answered: `200 × 41300, 3 × closed`. */
function tallyText(tally: Tally): string {
  const texts = Object.entries(tally).map(([what, times]) => `${times} × ${what}`);
  return texts.length === 0 ? "–" : texts.join(", ");
}

function ms(value: number): string {
  return value < 100 ? value.toFixed(1) : Math.round(value).toString();
}
