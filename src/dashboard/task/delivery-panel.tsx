import { useState } from "preact/hooks";

import type {
  HeaderLine,
  TimelineAttempt,
  TimelineDelivery,
  TimelineTask,
} from "../../api/timeline.ts";
import { Button, CopyButton, Segments } from "../part/control.tsx";
import { Badge, Countdown, Facts, Time, shownState } from "../part/figure.tsx";
import { Problem } from "../part/panel.tsx";
import { now } from "../shell/clock.ts";
import { bytesText, countText, durationText } from "../shell/format.ts";
import { useSubmission } from "../shell/resource.ts";
import { CodeBlock } from "./json-view.tsx";
import { SNIPPET_LANGUAGES, type SnippetLanguage, curlCommand, verifySnippet } from "./snippet.ts";
import { readTaskText } from "./task-content.tsx";
import { sentence } from "./task-facts.tsx";
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
    <section class="panel" aria-label={`The ${kind}`}>
      <div class="row pad rule-below panel-head">
        <h2>{kind === "postback" ? "Postback" : "Pingback"}</h2>
        <Badge state={shownState(delivery, hasFailed)} />
        {next !== null && !isPaused && <Countdown at={next} />}
        {redeliver !== null && <Button press={redeliver.run}>{redeliver.text}</Button>}
      </div>
      <div class="pad">
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

interface AttemptRowProps extends AttemptProps {
  /** True after a requested redelivery: its attempts start again at 1. */
  readonly isNewSeries: boolean;
  readonly isCurrent: boolean;
  readonly isOpen: boolean;
  readonly setOpen: (isOpen: boolean) => void;
}

/** One attempt, on a line that opens to show all its details. */
function AttemptRow(props: AttemptRowProps) {
  const { attempt, delivery, isNewSeries, isCurrent, isOpen, setOpen } = props;
  const { outcome, started_at: start } = attempt;
  const isPaused = start === null && delivery.is_paused;
  return (
    <>
      {isNewSeries && <p class="rule-above series hint">Redelivered:</p>}
      <details
        class="rule-above attempt"
        open={isOpen}
        aria-current={isCurrent ? "true" : undefined}
        onToggle={(event) => {
          // The event comes also when the page itself opened it.
          if (event.currentTarget.open !== isOpen) setOpen(event.currentTarget.open);
        }}
      >
        <summary class="attempt-line">
          <span class="number">{attempt.number}</span>
          <span>
            <Badge state={isPaused ? "paused" : (outcome ?? (start ? "in_flight" : "scheduled"))} />
          </span>
          <span class="attempt-how wraps">{howText(attempt)}</span>
          <span class="attempt-time">
            {start !== null && <Time at={start} />}
            {start === null && !isPaused && <Countdown at={attempt.due_at} />}
          </span>
          <span class="number">{spentText(attempt)}</span>
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

function AttemptBody({ task, delivery, attempt }: AttemptProps) {
  const { explanation, response_excerpt: excerpt } = attempt;
  return (
    <div class="attempt-body stack">
      <p class="explanation">{sentence(explanation)}</p>
      <AttemptFacts attempt={attempt} />
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

interface AttemptProps {
  readonly task: TimelineTask;
  readonly delivery: TimelineDelivery;
  readonly attempt: TimelineAttempt;
}

function RequestView({ task, delivery, attempt }: AttemptProps) {
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
      <SignatureCheck task={task} delivery={delivery} />
    </>
  );
}

function requestTitle({ started_at: start, request_headers: own }: TimelineAttempt): string {
  if (start === null) return "Request, as it will be sent";
  // An attempt's own headers are known only if it got that far.
  return own.length === 0 ? "Request that was not sent" : "Request, as it was sent";
}

function AttemptFacts({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { refusal, address, retry_after: retryAfter, due_at: due, started_at: start } = attempt;
  const lateMs = start === null ? null : Math.max(0, Date.parse(start) - Date.parse(due));
  return (
    <Facts
      look="facts"
      rows={[
        [
          "Due",
          <>
            <Time at={due} />
            {lateMs !== null && `, started ${durationText(lateMs)} later`}
          </>,
        ],
        address !== null && ["Address dialled", <span class="mono">{address}</span>],
        retryAfter !== null && [
          "Retry-After",
          <>
            <bdi>{retryAfter}</bdi> (ignored)
          </>,
        ],
        refusal !== null && [
          "Refused",
          <>
            <bdi>{refusal.host}</bdi>
            {refusal.addresses.length > 0 && ` resolved to ${refusal.addresses.join(", ")}`}:{" "}
            {refusal.rule}
          </>,
        ],
      ]}
    />
  );
}

const PHASES = [
  { name: "dns", field: "dns_ms", colour: "chart-violet" },
  { name: "connect", field: "connect_ms", colour: "chart-blue" },
  { name: "tls", field: "tls_ms", colour: "chart-amber" },
  { name: "first byte", field: "first_byte_ms", colour: "chart-teal" },
] as const;

interface Phase {
  readonly name: string;
  readonly ms: number;
  readonly colour: string;
}

/** The phases of an attempt: one bar, and its numbers. */
function PhaseBar({ attempt }: { readonly attempt: TimelineAttempt }) {
  const { phases, started_at: start, ended_at: end } = attempt;
  const spent = PHASES.flatMap(({ name, field, colour }): readonly Phase[] => {
    const ms = phases[field];
    return ms === null ? [] : [{ name, ms, colour }];
  });
  if (spent.length === 0) return null;
  const total = start === null || end === null ? 0 : Date.parse(end) - Date.parse(start);
  const rest = total - spent.reduce((sum, { ms }) => sum + ms, 0);
  const parts = rest < 1 ? spent : [...spent, { name: "rest", ms: rest, colour: "none" }];
  return (
    <div class="stack stack-tight phases">
      <div class="phase-bar" aria-hidden="true">
        {parts.map(({ name, ms, colour }) => (
          <div
            key={name}
            class={`phase tone-${colour}`}
            style={{ flexGrow: String(Math.max(ms, 0.01)) }}
          />
        ))}
      </div>
      <ul class="row phase-names">
        {parts.map(({ name, ms, colour }) => (
          <li key={name}>
            <i class={`phase tone-${colour}`} /> {name}{" "}
            <span class="number">{durationText(ms)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The signed bytes: a postback's body, a pingback's URL. */
function SignedBytes({ task, delivery }: Omit<AttemptProps, "attempt">) {
  const [loaded, setLoaded] = useState<string | null>(null);
  const submission = useSubmission();
  const { body } = delivery.request;
  const text = signedText(delivery) ?? loaded;
  const isBody = delivery.kind === "postback";
  const size = isBody ? body.bytes : new TextEncoder().encode(text ?? "").length;
  if (text !== null) {
    const what = isBody ? "signed body" : "signed URL";
    const title = `${isBody ? "Body" : "URL"}, exactly as signed: ${countText(size)} bytes`;
    return <CodeBlock title={title} text={text} what={what} />;
  }
  return (
    <div class="row">
      {submission.problem !== null && <Problem text={submission.problem} />}
      <span>The signed body has {countText(size)} bytes.</span>
      <Button
        isDisabled={submission.isBusy}
        press={() => submission.run(async () => setLoaded(await readTaskText(task)))}
      >
        Show the whole body ({bytesText(size)})
      </Button>
    </div>
  );
}

/** Rebuilds the request of an attempt, as far as it is known. */

/** The headers of a delivery as one attempt carried them. */
function headersOf(
  { request }: TimelineDelivery,
  { request_headers: own }: Pick<TimelineAttempt, "request_headers">,
): readonly HeaderLine[] {
  const rest = new Map(own.map((line) => [line[0].toLowerCase(), line]));
  const headers = request.headers.map((line) => {
    const name = line[0].toLowerCase();
    const changed = rest.get(name) ?? line;
    rest.delete(name);
    return changed;
  });
  return [...headers, ...rest.values()];
}

/** The request line and the headers, exactly as sent. */
function requestHead(delivery: TimelineDelivery, attempt: TimelineAttempt): string {
  const { method, target } = delivery.request;
  const lines = headersOf(delivery, attempt).map(([name, value]) => `${name}: ${value}`);
  return [`${method} ${target} HTTP/1.1`, ...lines].join("\n");
}

/** The text that `X-Signature` signs: the body or the URL; null where the body is not at hand. */
function signedText({ kind, request, url }: TimelineDelivery): string | null {
  if (kind === "postback") return request.body.text;
  return request.message === "" ? url : request.message;
}

function attemptCurl(taskId: string, delivery: TimelineDelivery, attempt: TimelineAttempt): string {
  const { request, url } = delivery;
  return curlCommand({
    origin: globalThis.location.origin,
    taskId,
    method: request.method,
    url,
    headers: headersOf(delivery, attempt),
    body: request.body.text,
    hasBody: request.method !== "GET",
  });
}

const LANGUAGES = SNIPPET_LANGUAGES.map((value) => ({ value, text: value }));

// A reader of one language reads it everywhere.
let preferred: SnippetLanguage = "TypeScript";

/** A program that checks this very signature, in the reader's language. */
function SignatureCheck({ task, delivery }: Omit<AttemptProps, "attempt">) {
  const [language, setLanguage] = useState(preferred);
  const snippet = verifySnippet(language, {
    origin: globalThis.location.origin,
    taskId: task.id,
    kind: delivery.kind,
    message: signedText(delivery),
    signature: delivery.request.signature,
  });
  return (
    <details>
      <summary>Verify this signature</summary>
      <div class="stack">
        <div class="row">
          <Segments
            label="Language"
            options={LANGUAGES}
            value={language}
            choose={(value) => {
              preferred = value;
              setLanguage(value);
            }}
          />
        </div>
        <CodeBlock title={snippet.file} text={snippet.text} what="program" />
        <p class="hint row">
          Run it with your webhook secret: <code>{snippet.command}</code>
          <CopyButton text={snippet.command} what="command" />
        </p>
        <p class="hint">
          These signatures are made with the account's present secret. Webhooks sent before a
          rotation carried signatures of the old one.
        </p>
        {delivery.request.signature_next !== null && (
          <p class="hint">
            The secret is being replaced: X-Signature is made with the old one, X-Signature-Next
            with the next one.
          </p>
        )}
      </div>
    </details>
  );
}
