import type { LeaseOutcome as LeaseOutcomeShown } from "../api/lease.ts";
import { memberNames, type JsonSchema } from "../api/schema.ts";
import { isId } from "../domain/id.ts";
import { isJsonObject, type JsonObject } from "../domain/json/json.ts";
import type { LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import { tasksEnvelope } from "../domain/task/envelope.ts";
import type { Answer } from "./operation.ts";

/** Lists of leases in the bodies of the worker protocol; one bad item never spoils the others (contract §7). */

/** How an item of a list is converted for the desk. */
export interface ItemReader<Asked> {
  /** The schema of an item. */
  readonly item: JsonSchema;
  /** Never refuses: unusable parts are left out, and `note` takes a sentence about them. */
  readonly read: (
    item: JsonObject,
    to: { readonly ref: LeaseRef; readonly note: (sentence: string) => void },
  ) => Asked;
}

/** Reads a list of leases item by item. */
export function readItems<Asked>(
  items: readonly unknown[],
  reader: ItemReader<Asked>,
): readonly ReadItem<Asked>[] {
  return items.map((item) => readItem(item, reader));
}

/** Passes the items of a list that can be leases to the desk, and answers each item in its place. */
export async function answerItems<Asked>(
  read: readonly ReadItem<Asked>[],
  {
    ask,
    fieldsText,
  }: {
    readonly ask: (asked: readonly Asked[]) => Promise<readonly LeaseOutcome[]>;
    /** What the operation adds to the envelope, after the desk has answered. */
    readonly fieldsText?: () => string;
  },
): Promise<Answer> {
  const asked = read.flatMap((item) => (item.kind === "lease" ? [item.asked] : []));
  const outcomes = asked.length === 0 ? [] : await ask(asked);
  if (outcomes.length !== asked.length) throw new Error("not every lease has an outcome");
  const left = outcomes.values();
  const shown = read.map(({ kind, id, detail }) => {
    const outcome = kind === "lease" ? (left.next().value ?? "lost") : "lost";
    const item: LeaseOutcomeShown = { id, outcome, ...(detail === undefined ? {} : { detail }) };
    return { code: 20000, text: JSON.stringify(item) } as const;
  });
  return { status: 200, text: tasksEnvelope(shown, fieldsText?.()) };
}

/** An item of a list, as plain data. */
export type ReadItem<Asked> = {
  /** As it was given, if it was text. */
  readonly id: string | null;
  /** Anything to add to the outcome. */
  readonly detail?: string;
} & ({ readonly kind: "lease"; readonly asked: Asked } | { readonly kind: "none" });

const NOT_AN_OBJECT = "It must be an object with id and lease_id.";
const NOT_A_LEASE = "It must have the id and the lease_id of a claimed task, each as it came.";
const LEASE_ID_LENGTH_MAX = 64;

function readItem<Asked>(
  item: unknown,
  { item: schema, read }: ItemReader<Asked>,
): ReadItem<Asked> {
  if (!isJsonObject(item)) return { kind: "none", id: null, detail: NOT_AN_OBJECT };
  const { id, lease_id: leaseId } = item;
  const shownId = typeof id === "string" ? id : null;
  const isRef = shownId !== null && isId(shownId) && isLeaseId(leaseId);
  if (!isRef) return { kind: "none", id: shownId, detail: NOT_A_LEASE };
  const notes = unknownMembers(item, memberNames(schema));
  const ref = { id: shownId, leaseId };
  const asked = read(item, { ref, note: (sentence) => void notes.push(sentence) });
  return { kind: "lease", id: shownId, asked, ...(notes[0] && { detail: notes.join(" ") }) };
}

function isLeaseId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= LEASE_ID_LENGTH_MAX;
}

// A misspelt `result` would be lost without a word.
function unknownMembers(item: JsonObject, known: readonly string[]): string[] {
  const isFine = Object.keys(item).every((name) => known.includes(name));
  return isFine ? [] : [`Only these members are known here: ${known.join(", ")}.`];
}
