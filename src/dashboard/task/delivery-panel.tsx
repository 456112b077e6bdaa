import type { TimelineDelivery, TimelineTask } from "../../api/timeline.ts";
import { Badge, shownState } from "../part/badge.tsx";
import { Button } from "../part/button.tsx";
import { CopyButton } from "../part/copy-button.tsx";
import { Countdown } from "../part/time.tsx";
import { AttemptRow } from "./attempt-row.tsx";
import { attemptKey } from "./timeline-row.ts";

interface DeliveryPanelProps {
  readonly task: TimelineTask;
  readonly delivery: TimelineDelivery;
  /** The key of the attempt with the cursor. */
  readonly current: string | null;
  /** The keys of the open attempts. */
  readonly open: ReadonlySet<string>;
  readonly setOpen: (key: string, isOpen: boolean) => void;
  /** Null where it is the only webhook: then the button at the top redelivers it. */
  readonly redeliver: { readonly text: string; readonly run: () => void } | null;
}

/** One webhook: its target, its state, and every attempt. */
export function DeliveryPanel(props: DeliveryPanelProps) {
  const { task, delivery, current, open, setOpen, redeliver } = props;
  const { kind, url, is_paused: isPaused, attempts, next_attempt_at: next } = delivery;
  const hasFailed = attempts.some(({ outcome }) => outcome !== null && outcome !== "delivered");
  return (
    <section class="panel delivery" aria-label={`The ${kind}`}>
      <div class="panel-head">
        <h2>{kind === "postback" ? "Postback" : "Pingback"}</h2>
        <Badge state={shownState(delivery, hasFailed)} />
        {next !== null && !isPaused && <Countdown at={next} />}
        <span class="grow" />
        {redeliver !== null && <Button press={redeliver.run}>{redeliver.text}</Button>}
      </div>
      <div class="delivery-head">
        <p class="url">
          <code tabIndex={0}>{url}</code> <CopyButton text={url} what="URL" />
        </p>
      </div>
      {attempts.map((attempt, index) => {
        const key = attemptKey(delivery, index);
        const before = attempts[index - 1]?.number ?? 0;
        return (
          <AttemptRow
            key={key}
            isNewSeries={before >= attempt.number}
            task={task}
            delivery={delivery}
            attempt={attempt}
            isCurrent={key === current}
            isOpen={open.has(key)}
            setOpen={(isOpen) => setOpen(key, isOpen)}
          />
        );
      })}
    </section>
  );
}
