import type { ApiTask } from "../kit/api-client.ts";
import { textTable } from "../kit/text-table.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import type { FileFacts } from "./sample-files.ts";

/** One task of the demo, from end to end. */
export interface DemoRow {
  readonly task: ApiTask;
  readonly facts: FileFacts;
  readonly webhook: ReceivedWebhook;
  /** How its signature was verified. */
  readonly verdict: string;
}

const COLUMNS = [
  { name: "task" },
  { name: "file" },
  { name: "SHA-256" },
  { name: "lines", align: "right" },
  { name: "bytes", align: "right" },
  { name: "reported by" },
  { name: "wait ms", align: "right" },
  { name: "run ms", align: "right" },
  { name: "delivery ms", align: "right" },
  { name: "signature" },
] as const;

const FILE_CHARACTERS_MAX = 36;

/** The tasks as a table, in the order given. */
export function demoTable(rows: readonly DemoRow[]): string {
  return textTable(COLUMNS, rows.map(row));
}

function row({ task, facts, webhook, verdict }: DemoRow): string[] {
  const [createdAt, startedAt, completedAt] = [
    task.created_at,
    task.started_at,
    task.completed_at,
  ].map((time) => Date.parse(time ?? ""));
  const elapsed = (from: number | undefined, to: number | undefined): string =>
    String((to ?? Number.NaN) - (from ?? Number.NaN));
  return [
    `…${task.id.slice(-6)}`,
    shortened(facts.file),
    `${facts.sha256.slice(0, 12)}…`,
    String(facts.lines),
    String(facts.bytes),
    webhook.kind,
    elapsed(createdAt, startedAt),
    elapsed(startedAt, completedAt),
    elapsed(completedAt, webhook.receivedAt),
    verdict,
  ];
}

function shortened(file: string): string {
  return file.length <= FILE_CHARACTERS_MAX ? file : `…${file.slice(1 - FILE_CHARACTERS_MAX)}`;
}
