import type { LeaseBeatItem, LeasedTask, LeaseFailureItem, LeaseRefItem } from "../api/lease.ts";
import type { BodyOf } from "../api/operations.ts";
import { isJsonObject, toJsonText, type JsonObject } from "../domain/json/json.ts";
import { LEASE_OUTCOMES } from "../domain/lease/lease.ts";
import type { LeaseBeat, LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import { parseTrace } from "../domain/task/trace.ts";
import type { RunFailureDetail, RunRequest } from "../run/runner.ts";
import { shortLine } from "./link.ts";

/** A task as a worker gets it (worker-protocol.md). */
export interface ClaimedRun extends LeaseRef {
  readonly request: RunRequest;
  /** By the daemon's clock. */
  readonly leaseExpiresAt: number;
}

/** How a run ended, as the daemon gets it. */
export type Ending =
  | (LeaseRef & { readonly kind: "complete"; readonly resultText: string })
  | (LeaseRef & {
      readonly kind: "fail";
      readonly message: string;
      readonly detail: RunFailureDetail;
      /** Null as the type says. */
      readonly retry: boolean | null;
    })
  | (LeaseRef & { readonly kind: "release" });

/** The daemon's word about a lease. */
export interface LeaseNews {
  readonly outcome: LeaseOutcome;
  /** The fault in the request; null without one. */
  readonly detail: string | null;
}

/** The body of a heartbeat. */
export function heartbeatBody(beats: readonly LeaseBeat[]): string {
  const leases = beats.map(({ id, leaseId, progress }): LeaseBeatItem => ({
    id,
    lease_id: leaseId,
    ...(progress === null ? {} : { progress }),
  }));
  const body: BodyOf<"POST /v1/worker/heartbeat"> = { leases };
  return JSON.stringify(body);
}

/** One task in the body of complete, fail or release. The result is spliced in as text: numbers keep every digit. */
export function endingText(ending: Ending): string {
  const { id, leaseId } = ending;
  const ref: LeaseRefItem = { id, lease_id: leaseId };
  switch (ending.kind) {
    case "complete":
      return `${JSON.stringify(ref).slice(0, -1)},"result":${ending.resultText}}`;
    case "fail": {
      const { message, detail, retry } = ending;
      const failure: LeaseFailureItem = { ...ref, message, detail };
      return JSON.stringify(retry === null ? failure : { ...failure, retry });
    }
    case "release":
      return JSON.stringify(ref);
  }
}

/** Reads the response to a claim; null for any other value. */
export function parseClaim(value: JsonObject): readonly ClaimedRun[] | null {
  const tasks = listIn(value).map(parseClaimed);
  return Array.isArray(value["tasks"]) && tasks.every((task) => task !== null) ? tasks : null;
}

/** Reads the outcomes of the leases asked about, in their order; null where the value does not answer that. */
export function parseOutcomes(
  value: JsonObject,
  asked: readonly LeaseRef[],
): readonly LeaseNews[] | null {
  const outcomes = listIn(value).map((task, i) => {
    if (!isJsonObject(task) || task["id"] !== asked[i]?.id) return null;
    const outcome = LEASE_OUTCOMES.find((each) => each === task["outcome"]);
    const detail = textOrNull(task["detail"]);
    return outcome === undefined ? null : { outcome, detail: detail && shortLine(detail) };
  });
  if (outcomes.length !== asked.length) return null;
  return outcomes.every((news) => news !== null) ? outcomes : null;
}

/** Something that should be a leased task: its names are known, their values may be anything. */
type GivenTask = { readonly [Name in keyof LeasedTask]?: unknown };

function parseClaimed(given: unknown): ClaimedRun | null {
  if (!isJsonObject(given)) return null;
  const task: GivenTask = given;
  const { id, type, lease_id: leaseId, lease_expires_at: until } = task;
  if (typeof id !== "string" || typeof type !== "string") return null;
  if (typeof leaseId !== "string" || typeof until !== "string") return null;
  const expiresAt = Date.parse(until);
  if (Number.isNaN(expiresAt)) return null;
  const inputText = toJsonText(task.input ?? null);
  const [tag, marketplace] = [textOrNull(task.tag), textOrNull(task.marketplace)];
  const [parent, state] = [task.traceparent, task.tracestate].map(textOrNull);
  const trace = parent ? parseTrace([parent], state ? [state] : []) : null;
  const request = { id, type, tag, marketplace, inputText, trace };
  return { id, leaseId, leaseExpiresAt: expiresAt, request };
}

function listIn({ tasks }: JsonObject): readonly unknown[] {
  return Array.isArray(tasks) ? tasks : [];
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
