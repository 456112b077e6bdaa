import { useState } from "preact/hooks";

import { announce } from "../part/announcer.tsx";
import { Button } from "../part/button.tsx";
import { Dialog } from "../part/dialog.tsx";
import { Problem } from "../part/notice.tsx";
import { countOf, durationText, MINUTE_MS, SECOND_MS } from "../shell/format.ts";
import { shownAccount } from "../shell/session.ts";
import { useSubmission } from "../shell/submission.ts";
import { RedeliveryCount } from "./redelivery-count.tsx";
import { useRedeliveryCount } from "./redelivery-counting.ts";
import { filterOf, newChoice, RedeliveryForm, type RedeliveryChoice } from "./redelivery-form.tsx";
import { orderRedelivery, type Counted } from "./redelivery.ts";

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
