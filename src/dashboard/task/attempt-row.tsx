import type { TimelineAttempt, TimelineDelivery, TimelineTask } from "../../api/timeline.ts";
import { Badge } from "../part/badge.tsx";
import { CopyButton } from "../part/copy-button.tsx";
import { Fact } from "../part/fact.tsx";
import { Countdown, Time } from "../part/time.tsx";
import { now } from "../shell/clock.ts";
import { durationText } from "../shell/format.ts";
import { CodeBlock } from "./code-block.tsx";
import { PhaseBar } from "./phase-bar.tsx";
import { attemptCurl, requestHead } from "./sent-request.ts";
import { sentence } from "./sentence.ts";
import { SignatureCheck } from "./signature-check.tsx";
import { SignedBytes } from "./signed-bytes.tsx";

interface AttemptRowProps {
  readonly task: TimelineTask;
  readonly delivery: TimelineDelivery;
  readonly attempt: TimelineAttempt;
  /** True where somebody asked for a redelivery: a new series begins. */
  readonly isNewSeries: boolean;
  readonly isCurrent: boolean;
  readonly isOpen: boolean;
  readonly setOpen: (isOpen: boolean) => void;
}

/** One attempt, on a line that opens to show all its details. */
export function AttemptRow(props: AttemptRowProps) {
  const { attempt, delivery, isNewSeries, isCurrent, isOpen, setOpen } = props;
  const { outcome, started_at: start } = attempt;
  const isPaused = start === null && delivery.is_paused;
  return (
    <>
      {isNewSeries && <p class="series hint">Redelivered:</p>}
      <details
        class="attempt"
        open={isOpen}
        aria-current={isCurrent ? "true" : undefined}
        onToggle={(event) => {
          // The event comes also when the page itself opened it.
          if (event.currentTarget.open !== isOpen) setOpen(event.currentTarget.open);
        }}
      >
        <summary class="attempt-line">
          <span class="number attempt-number">{attempt.number}</span>
          <span>
            <Badge state={isPaused ? "paused" : (outcome ?? (start ? "in_flight" : "scheduled"))} />
          </span>
          <span class="attempt-how">{howText(attempt)}</span>
          <span class="attempt-time">
            {start !== null && <Time at={start} />}
            {start === null && !isPaused && <Countdown at={attempt.due_at} />}
          </span>
          <span class="number attempt-spent">{spentText(attempt)}</span>
        </summary>
        {isOpen && <AttemptBody {...props} />}
      </details>
    </>
  );
}

function howText({ http_status: status, error, started_at: start }: TimelineAttempt): string {
  const parts = [status === null ? null : `HTTP ${status}`, error];
  const how = parts.filter((part) => part !== null).join(", ");
  return how === "" && start === null ? "not started" : how;
}

function spentText({ started_at: start, ended_at: end }: TimelineAttempt): string {
  if (start === null) return "";
  const until = end === null ? now.value : Date.parse(end);
  return durationText(Math.max(0, until - Date.parse(start)));
}

function AttemptBody({ task, delivery, attempt }: AttemptRowProps) {
  const { explanation, response_excerpt: excerpt } = attempt;
  return (
    <div class="attempt-body stack">
      <p class="explanation">{sentence(explanation)}</p>
      <Facts attempt={attempt} />
      <PhaseBar attempt={attempt} />
      {excerpt !== null && (
        <CodeBlock
          title="The receiver's answer, its beginning"
          text={excerpt === "" ? "(an empty body)" : excerpt}
          what="answer"
        />
      )}
      <RequestView task={task} delivery={delivery} attempt={attempt} />
    </div>
  );
}

interface RequestViewProps {
  readonly task: TimelineTask;
  readonly delivery: TimelineDelivery;
  readonly attempt: TimelineAttempt;
}

function RequestView({ task, delivery, attempt }: RequestViewProps) {
  return (
    <>
      <CodeBlock title={requestTitle(attempt)} text={requestHead(delivery, attempt)} what="request">
        <CopyButton
          text={attemptCurl(task.id, delivery, attempt)}
          what="curl command"
          label="Copy as curl"
          isLabelled
        />
      </CodeBlock>
      <SignedBytes task={task} delivery={delivery} />
      <SignatureCheck taskId={task.id} delivery={delivery} />
    </>
  );
}

function requestTitle({ started_at: start, request_headers: own }: TimelineAttempt): string {
  if (start === null) return "Request, as it will be sent";
  // An attempt's own headers are known only if it got that far.
  return own.length === 0 ? "Request that was not sent" : "Request, as it was sent";
}

function Facts({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { refusal, address, retry_after: retryAfter, due_at: due, started_at: start } = attempt;
  return (
    <dl class="facts">
      <Fact name="Due">
        <Time at={due} />
        {start !== null &&
          `, started ${durationText(Math.max(0, Date.parse(start) - Date.parse(due)))} later`}
      </Fact>
      {address !== null && (
        <Fact name="Address dialled">
          <span class="mono">{address}</span>
        </Fact>
      )}
      {retryAfter !== null && (
        <Fact name="Retry-After">
          <bdi>{retryAfter}</bdi>, which moves no retry
        </Fact>
      )}
      {refusal !== null && (
        <Fact name="Refused">
          <bdi>{refusal.host}</bdi>
          {refusal.addresses.length > 0 && ` resolved to ${refusal.addresses.join(", ")}`}:{" "}
          {refusal.rule}
        </Fact>
      )}
    </dl>
  );
}
