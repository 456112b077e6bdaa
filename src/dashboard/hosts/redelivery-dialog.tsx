import { useEffect, useRef, useState } from "preact/hooks";

import type { WrittenFilter } from "../../api/search.ts";
import { MINUTE_MS, SECOND_MS } from "../../domain/clock/duration.ts";
import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Dialog } from "../part/dialog.tsx";
import { Problem } from "../part/panel.tsx";
import { countOf, countText, durationText } from "../shell/format.ts";
import { useSubmission } from "../shell/resource.ts";
import { shownAccount } from "../shell/session.ts";
import { type RedeliveryChoice, RedeliveryForm, filterOf, newChoice } from "./redelivery-form.tsx";
import { type Counted, NOTHING_COUNTED, countRedelivery, orderRedelivery } from "./redelivery.ts";

interface RedeliveryDialogProps {
  /** The preselected host; "" is every host. */
  readonly host: string;
  readonly close: () => void;
}

/** Orders a redelivery of what has not arrived since a time: choose, count, order. */
export function RedeliveryDialog({ host, close }: RedeliveryDialogProps) {
  const [choice, setChoice] = useState(() => newChoice(host, Date.now()));
  const count = useRedeliveryCount();
  const order = useSubmission();
  const filter = filterOf(choice);
  function change(next: RedeliveryChoice): void {
    // The rate does not change the count.
    if (JSON.stringify(filterOf(next)) !== JSON.stringify(filter)) count.clear();
    order.clear();
    setChoice(next);
  }
  async function giveOrder(counted: Counted): Promise<void> {
    if (filter === null) return;
    await orderRedelivery(filter, { perSecond: choice.perSecond, counted });
    announce(`Redelivering ${countOf(counted.deliveries, "delivery", "deliveries")}.`);
    close();
  }
  const problem = count.problem ?? order.problem;
  return (
    <Dialog title="Redeliver failed deliveries" close={close}>
      <p class="hint">
        Sends again the webhooks that did not arrive, of {scopeText()}. Each starts a new series of
        attempts.
      </p>
      <RedeliveryForm
        choice={choice}
        change={change}
        submit={() => filter !== null && !count.isBusy && count.start(filter)}
      />
      {problem !== null && <Problem text={problem} />}
      {count.counted !== null && count.problem === null && (
        <RedeliveryCount counted={count.counted} isBusy={count.isBusy} />
      )}
      <div class="dialog-buttons">
        <Button isLarge press={close}>
          Close
        </Button>
        {count.isBusy && (
          <Button isLarge press={count.stop}>
            Stop counting
          </Button>
        )}
        {count.counted === null || count.problem !== null ? (
          <CountButton isDisabled={filter === null} />
        ) : (
          <OrderButton
            counted={count.counted}
            perSecond={choice.perSecond}
            isDisabled={count.isBusy || order.isBusy}
            order={(counted) => order.run(() => giveOrder(counted))}
          />
        )}
      </div>
    </Dialog>
  );
}

function CountButton({ isDisabled }: { readonly isDisabled: boolean }) {
  return (
    <button type="submit" form="redelivery" class="button button-primary" disabled={isDisabled}>
      Count them
    </button>
  );
}

function scopeText(): string {
  return shownAccount.value === null ? "all accounts" : `the account ${shownAccount.value}`;
}

interface OrderButtonProps {
  readonly counted: Counted;
  readonly perSecond: number;
  readonly isDisabled: boolean;
  readonly order: (counted: Counted) => void;
}

function OrderButton({ counted, perSecond, isDisabled, order }: OrderButtonProps) {
  const { deliveries, isWhole } = counted;
  const what = `${isWhole ? "" : "more than "}${countOf(deliveries, "delivery", "deliveries")}`;
  const takesMs = Math.ceil(deliveries / perSecond) * SECOND_MS;
  const isNothing = deliveries === 0 && isWhole;
  const text = isNothing
    ? "Nothing to redeliver"
    : `Redeliver ${what} at ${perSecond} a second (about ${roughText(takesMs)})`;
  return (
    <Button
      look="primary"
      isLarge
      isDisabled={isDisabled || isNothing}
      press={() => order(counted)}
    >
      {text}
    </Button>
  );
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
export function RedeliveryCount({ counted, isBusy }: RedeliveryCountProps) {
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
        <ul class="redelivery-hosts">
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

/** The state of a count. */
export interface RedeliveryCounting {
  /** Null before the count begins. */
  readonly counted: Counted | null;
  readonly isBusy: boolean;
  readonly problem: string | null;
  readonly start: (filter: WrittenFilter) => void;
  /** Stops; the count so far stands. */
  readonly stop: () => void;
  readonly clear: () => void;
}

/** Counts what an order would send again, over as many requests as it takes. */
export function useRedeliveryCount(): RedeliveryCounting {
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
