import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import type { AnswerOf } from "../../api/operations.ts";
import type { WrittenFilter } from "../../api/search.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../domain/clock/duration.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Dialog, closeDialog, useClose } from "../part/dialog.tsx";
import { type Field, Fields, type Values } from "../part/form.tsx";
import { Problem } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { countOf, countText, durationText } from "../shell/format.ts";
import { type Submission, useSubmission } from "../shell/resource.ts";
import { isOperator, shownAccount } from "../shell/session.ts";

type RedeliveryField = "since" | "host" | "kind" | "states" | "rate";

const PRESETS = [
  { text: "1 h", ms: HOUR_MS },
  { text: "24 h", ms: DAY_MS },
  { text: "7 d", ms: 7 * DAY_MS },
];

function fieldsOf(): readonly Field<RedeliveryField>[] {
  return [
    {
      name: "since",
      label: "Failed since",
      input: { type: "datetime-local", required: true, max: localText(Date.now()) },
      adapt: (_, change) => ({
        tools: PRESETS.map(({ text, ms }) => (
          <Button
            key={text}
            label={`The last ${text}`}
            press={() => change(localText(Date.now() - ms))}
          >
            {text}
          </Button>
        )),
      }),
    },
    { name: "host", label: "Host", isHalf: true, input: { placeholder: "every host" } },
    {
      name: "kind",
      label: "Kind",
      kind: "choice",
      isHalf: true,
      options: [
        ["", "postbacks and pingbacks"],
        ["postback", "postbacks"],
        ["pingback", "pingbacks"],
      ],
    },
    {
      name: "states",
      label: "Their state",
      kind: "checks",
      isHalf: true,
      options: [["given_up", "given up"], ["refused"]],
    },
    {
      name: "rate",
      label: "Per second, at most",
      isHalf: true,
      input: { type: "number", required: true, min: 1, max: rateMax() },
    },
  ];
}

/** The values in the API's form; null while they are incomplete. */
function filterOf({ since, host, kind, states }: Values<RedeliveryField>): WrittenFilter | null {
  const at = new Date(since);
  if (Number.isNaN(at.getTime()) || states === "") return null;
  return {
    since: at.toISOString(),
    // The options of the fields are the API's words.
    states: states.split(",") as WrittenFilter["states"],
    host: host.trim() || undefined,
    kind: (kind || undefined) as WrittenFilter["kind"],
  };
}

function rateMax(): number {
  return isOperator.value ? 1000 : 50;
}

function rateOf({ rate }: Values<RedeliveryField>): number {
  return Math.min(rateMax(), Math.max(1, Math.floor(Number(rate))));
}

// The field has no zone: it uses the reader's.
function localText(at: number): string {
  const offsetMs = new Date(at).getTimezoneOffset() * MINUTE_MS;
  return new Date(at - offsetMs).toISOString().slice(0, 16);
}

function newValues(host: string): Values<RedeliveryField> {
  const since = localText(Date.now() - DAY_MS);
  return { since, host, kind: "", states: "given_up,refused", rate: "10" };
}

/** Orders a redelivery of what has not arrived since a time: choose, count, order. `host` "" is every host. */
export function RedeliveryDialog({ host }: { readonly host: string }) {
  const [values, setValues] = useState(() => newValues(host));
  const count = useRedeliveryCount();
  const order = useSubmission();
  const filter = filterOf(values);
  function change(next: Values<RedeliveryField>): void {
    // The rate does not change the count.
    if (JSON.stringify(filterOf(next)) !== JSON.stringify(filter)) count.clear();
    order.clear();
    setValues(next);
  }
  const problem = count.problem ?? order.problem;
  return (
    <Dialog title="Redeliver failed deliveries">
      <p class="hint">
        Sends again the webhooks that did not arrive, of {scopeText()}. Each starts a new series of
        attempts.
      </p>
      <form
        id="redelivery"
        onSubmit={(event) => {
          event.preventDefault();
          if (filter !== null && !count.isBusy) count.start(filter);
        }}
      >
        <Fields fields={fieldsOf()} values={values} change={change} />
      </form>
      {problem !== null && <Problem text={problem} />}
      {count.counted !== null && count.problem === null && (
        <RedeliveryCount counted={count.counted} isBusy={count.isBusy} />
      )}
      <Buttons values={values} count={count} order={order} />
    </Dialog>
  );
}

interface ButtonsProps {
  readonly values: Values<RedeliveryField>;
  readonly count: ReturnType<typeof useRedeliveryCount>;
  readonly order: Submission;
}

function Buttons({ values, count, order }: ButtonsProps) {
  const close = useClose();
  const filter = filterOf(values);
  const perSecond = rateOf(values);
  const { counted, isBusy } = count;
  async function giveOrder(): Promise<void> {
    if (filter === null || counted === null) return;
    await orderRedelivery(filter, { perSecond, counted });
    announce(`Redelivering ${countOf(counted.deliveries, "delivery", "deliveries")}.`);
    close();
  }
  return (
    <div class="row dialog-buttons">
      <Button isLarge press={closeDialog}>
        Close
      </Button>
      {isBusy && (
        <Button isLarge press={count.stop}>
          Stop counting
        </Button>
      )}
      {counted === null || count.problem !== null ? (
        <button
          type="submit"
          form="redelivery"
          class="button button-primary"
          disabled={filter === null}
        >
          Count them
        </button>
      ) : (
        <Button
          look="primary"
          isLarge
          isDisabled={isBusy || order.isBusy || isNothing(counted)}
          press={() => order.run(giveOrder)}
        >
          {orderText(counted, perSecond)}
        </Button>
      )}
    </div>
  );
}

function scopeText(): string {
  return shownAccount.value === null ? "all accounts" : `the account ${shownAccount.value}`;
}

function isNothing({ deliveries, isWhole }: Counted): boolean {
  return deliveries === 0 && isWhole;
}

function orderText(counted: Counted, perSecond: number): string {
  if (isNothing(counted)) return "Nothing to redeliver";
  const { deliveries, isWhole } = counted;
  const what = `${isWhole ? "" : "more than "}${countOf(deliveries, "delivery", "deliveries")}`;
  const takesMs = Math.ceil(deliveries / perSecond) * SECOND_MS;
  return `Redeliver ${what} at ${perSecond} a second (about ${roughText(takesMs)})`;
}

// "2 min 13 s" would promise more than is known.
function roughText(ms: number): string {
  if (ms < 90 * SECOND_MS) return durationText(ms);
  return durationText(Math.round(ms / MINUTE_MS) * MINUTE_MS);
}

interface RedeliveryCountProps {
  readonly counted: Counted;
  readonly isBusy: boolean;
}

/** The number of deliveries that an order would send again; it grows while they are counted. */
function RedeliveryCount({ counted, isBusy }: RedeliveryCountProps) {
  const { deliveries, hosts, isWhole } = counted;
  const total = countOf(deliveries, "delivery", "deliveries");
  return (
    <div class="redelivery-count">
      <p aria-live="polite">
        {isBusy && <>Counting… {total} so far</>}
        {!isBusy && isWhole && (
          <>
            <b>{total}</b>{" "}
            {deliveries === 0 ? "to send again. Try a longer time." : "to send again."}
          </>
        )}
        {!isBusy && !isWhole && (
          <>Stopped at {total}: there may be more. The order sends them all.</>
        )}
      </p>
      {hosts.length > 0 && (
        <ul class="hint">
          {hosts.map(({ host, deliveries: count }) => (
            <li key={host}>
              <bdi class="mono">{host}</bdi>
              <span class="number">{countText(count)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/**
 * Counts what an order would send again, over as many requests as it takes. `counted` is null before the count begins;
 * after `stop` the count so far stands.
 */
function useRedeliveryCount() {
  const [counted, setCounted] = useState<Counted | null>(null);
  const submission = useSubmission();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  return {
    counted,
    isBusy: submission.isBusy,
    problem: submission.problem,
    start(filter: WrittenFilter): void {
      stop.current = new AbortController();
      const { signal } = stop.current;
      setCounted(NOTHING_COUNTED);
      submission.run(() => countRedelivery(filter, { stop: signal, report: setCounted }));
    },
    stop: () => stop.current.abort(),
    clear(): void {
      stop.current.abort();
      submission.clear();
      setCounted(null);
    },
  };
}

/** The deliveries that an order would send again, as far as they are counted. */
export interface Counted {
  readonly deliveries: number;
  /** The host with the most comes first. */
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
  /** True when everything has been counted. */
  readonly isWhole: boolean;
}

const NOTHING_COUNTED: Counted = { deliveries: 0, hosts: [], isWhole: false };

// Each page lists only the largest hosts: a long list here would be wrong at its end.
const HOSTS_SHOWN_MAX = 10;

/**
 * Counts page by page the deliveries that pass a filter, and reports the count after each. Ends early when `stop`
 * aborts; the last report stands. Throws an ApiError.
 */
async function countRedelivery(
  filter: WrittenFilter,
  { stop, report }: { readonly stop: AbortSignal; readonly report: (counted: Counted) => void },
): Promise<void> {
  const byHost = new Map<string, number>();
  let deliveries = 0;
  let cursor: string | null = null;
  do {
    const page: AnswerOf<"POST /v1/redeliveries/preview"> = await call(
      "POST /v1/redeliveries/preview",
      { body: { ...filter, cursor: cursor ?? undefined }, signal: stop },
    );
    deliveries += page.deliveries;
    for (const { host, deliveries: more } of page.hosts) {
      byHost.set(host, (byHost.get(host) ?? 0) + more);
    }
    cursor = page.next_cursor;
    report({ deliveries, hosts: largest(byHost), isWhole: cursor === null });
  } while (cursor !== null && !stop.aborted);
}

function largest(byHost: ReadonlyMap<string, number>): Counted["hosts"] {
  return [...byHost]
    .map(([host, deliveries]) => ({ host, deliveries }))
    .toSorted((a, b) => b.deliveries - a.deliveries)
    .slice(0, HOSTS_SHOWN_MAX);
}

/** The number of deliveries of each order given on this page, by order. */
export const knownTotals = signal<ReadonlyMap<string, number>>(new Map());

export const ordersGiven = signal(0);

/** Gives the order. Throws an ApiError. */
async function orderRedelivery(
  filter: WrittenFilter,
  { perSecond, counted }: { readonly perSecond: number; readonly counted: Counted },
): Promise<void> {
  const { redelivery } = await call("POST /v1/redeliveries", {
    body: { ...filter, per_second: perSecond },
  });
  if (counted.isWhole) {
    knownTotals.value = new Map(knownTotals.value).set(redelivery.id, counted.deliveries);
  }
  ordersGiven.value++;
}
