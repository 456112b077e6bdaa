import { useState } from "preact/hooks";

import type { InboxBox, InboxMessage } from "../../api/dev.ts";
import type { WrittenAnswer } from "../../domain/webhook/inbox.ts";
import { announce } from "../part/announcer.tsx";
import { Button, CopyButton, Segments } from "../part/control.tsx";
import { ask } from "../part/dialog.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { type Field, Fields } from "../part/form.tsx";
import { List } from "../part/list.tsx";
import { Clipped, Empty, Loaded, Panel, Problem, Screen, ScreenHead } from "../part/panel.tsx";
import type { Column } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText, durationText } from "../shell/format.ts";
import { useRead, useSubmission } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { parseJsonSource } from "../task/json-source.ts";
import { CodeBlock } from "../task/json-view.tsx";
import { JsonPanel } from "../task/task-content.tsx";

export { ClockBar } from "./clock-bar.tsx";

/**
 * The screens of a daemon for development, below `/inbox`. They are a script of their own, which no other daemon's page
 * loads: nothing else may import this file but by `import()`.
 */
export function InboxScreen({ box }: { readonly box: string | undefined }) {
  return box === undefined ? <BoxesScreen /> : <BoxScreen key={box} box={box} />;
}

const TIMING = { pollMs: 2000 };

function BoxesScreen() {
  const resource = useRead("GET /dev/inbox", {}, TIMING);
  return (
    <Screen title="Inbox" resource={resource}>
      {({ boxes }) => (
        <List
          label="Boxes"
          columns={COLUMNS}
          rows={boxes}
          keyOf={({ box }) => box}
          empty={
            <Empty title="Nothing was received yet">
              <p>
                Whatever is sent to <code>{globalThis.location.origin}/inbox/NAME</code> is shown
                here, with a verdict on its signature. Post a task with that URL as its{" "}
                <code>postback_url</code>.
              </p>
            </Empty>
          }
        />
      )}
    </Screen>
  );
}

const COLUMNS: readonly Column<InboxBox>[] = [
  { name: "Box", cell: ({ box }) => <a href={hrefOf(`/inbox/${box}`)}>{box}</a> },
  { name: "Messages", isNumber: true, cell: ({ messages }) => countText(messages) },
  { name: "Last", cell: ({ last_received_at: at }) => <Time at={at} /> },
];

// Each with its body, every two seconds.
const SHOWN_MAX = 50;

/** The newest messages of an inbox, and how it answers. */
function BoxScreen({ box }: { readonly box: string }) {
  const params = { box };
  const query = { last: SHOWN_MAX };
  const messages = useRead("GET /dev/inbox/:box", { params, query }, TIMING);
  const url = `${globalThis.location.origin}/inbox/${box}`;
  return (
    <>
      <ScreenHead title={`Inbox ${box}`}>
        <a href={hrefOf("/inbox")}>All boxes</a>
        <Button press={() => askEmptying(box, messages.reload)}>Empty it</Button>
      </ScreenHead>
      <div class="stack">
        <p class="row">
          <code>{url}</code>
          <CopyButton text={url} what="URL" />
        </p>
        <AnswerForm box={box} />
        <Loaded resource={messages}>
          {({ messages: all }) =>
            all.length === 0 ? (
              <Empty title="No messages" />
            ) : (
              <Panel title="Messages" note={`the newest ${SHOWN_MAX} at most`}>
                {all.toReversed().map((message) => (
                  <Message key={message.seq} message={message} />
                ))}
              </Panel>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function askEmptying(box: string, done: () => void): void {
  ask({
    title: `Empty the inbox ${box}`,
    verb: "Empty it",
    isDanger: true,
    text: <p>Its messages go, and the answers that were set for it: it answers 200 again.</p>,
    work: () => call("DELETE /dev/inbox/:box", { params: { box } }),
    announcement: `The inbox ${box} is empty.`,
    done,
  });
}

const ANSWER_FIELDS: readonly Field<"next" | "last">[] = [
  {
    name: "next",
    label: "Next, one by one",
    input: { placeholder: "500, hang, reset, 503 after 300" },
  },
  { name: "last", label: "Then", input: { placeholder: "200" } },
];

function AnswerForm({ box }: { readonly box: string }) {
  const [values, setValues] = useState({ next: "", last: "" });
  const submission = useSubmission();
  async function set(): Promise<void> {
    const answers = readAnswers(values.next);
    const [then] = readAnswers(values.last);
    await call("PUT /dev/inbox/:box/answers", { params: { box }, body: { answers, then } });
    announce(`Responses of the inbox ${box} updated.`);
  }
  return (
    <Panel title="Answers">
      <form
        class="panel-body row"
        onSubmit={(event) => {
          event.preventDefault();
          submission.run(set);
        }}
      >
        <Fields fields={ANSWER_FIELDS} values={values} change={setValues} />
        <button type="submit" class="button button-small" disabled={submission.isBusy}>
          Set
        </button>
      </form>
      {submission.problem !== null && <Problem text={submission.problem} />}
    </Panel>
  );
}

/** The answers in a text such as `500, hang, 503 after 300`; the daemon refuses what is none. */
function readAnswers(text: string): readonly WrittenAnswer[] {
  const words = text.split(",").map((word) => word.trim());
  return words.filter((word) => word !== "").map(readAnswer);
}

function readAnswer(word: string): WrittenAnswer {
  const [, status, afterMs] = /^(\d+)(?: after (\d+)(?: ?ms)?)?$/.exec(word) ?? [];
  if (afterMs !== undefined) return { status: Number(status), after_ms: Number(afterMs) };
  if (status !== undefined) return Number(status);
  if (word === "hang" || word === "reset") return word;
  throw new Error(
    `“${word}” is not a response: write a status such as 503, hang, reset, or 503 after 300 (milliseconds).`,
  );
}

const KINDS = [
  { value: "url", text: "URL" },
  { value: "inbox", text: "Inbox" },
] as const;

// The inbox of the daemon's own account.
const STANDARD_BOX = "dev";

/** Lets a webhook's target be a URL, or an inbox of this daemon, whose name is the end of its URL. */
export function inboxChoice(kind: string): NonNullable<Field["adapt"]> {
  const base = `${globalThis.location.origin}/inbox/`;
  return (target, change) => {
    const isInbox = target.startsWith(base);
    return {
      ...(isInbox && {
        label: `${kind} inbox`,
        hint: "The name of an inbox of this daemon, which receives it.",
        value: target.slice(base.length),
        change: (box: string) => change(base + box),
      }),
      tools: (
        <Segments
          label={`Target of the ${kind.toLowerCase()}`}
          options={KINDS}
          value={isInbox ? "inbox" : "url"}
          choose={(chosen) => change(chosen === "inbox" ? base + STANDARD_BOX : "")}
        />
      ),
    };
  };
}

/** A message of an inbox: a line, with everything else below it. */
export function Message({ message }: { readonly message: InboxMessage }) {
  const [isOpen, setOpen] = useState(false);
  const { seq, received_at: at, method, url, kind, attempt, signature } = message;
  return (
    <details
      class="rule-above"
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary class="pad hint">
        <b>#{seq}</b> <Badge state={signature.verdict} title={signature.detail} /> {kind ?? method}
        {attempt !== null && `, attempt ${attempt}`}, {answeredText(message)}, <Time at={at} />{" "}
        <Clipped text={url} />
      </summary>
      {isOpen && <Details message={message} />}
    </details>
  );
}

function Details({ message }: { readonly message: InboxMessage }) {
  const { method, full_url: url, headers, task_id: id, signature } = message;
  const lines = headers.map((line) => line.join(": ")).join("\n");
  return (
    <div class="stack panel-body">
      <p class="wraps">{signature.detail}</p>
      {id !== null && (
        <p>
          <a href={hrefOf(`/tasks/${id}`)}>Task {id}</a>
        </p>
      )}
      <CodeBlock title="Request" text={`${method} ${url}`} what="request line" />
      <CodeBlock title="Headers" text={lines} what="headers" />
      {message.body !== "" && <Body message={message} />}
    </div>
  );
}

const FORMS = [
  { value: "pretty", text: "Pretty" },
  { value: "raw", text: "Raw" },
] as const;

function Body({ message: { body, body_encoding: encoding } }: { readonly message: InboxMessage }) {
  const [form, setForm] = useState<"pretty" | "raw">("pretty");
  const json = encoding === "utf-8" ? parseJsonSource(body) : undefined;
  if (json === undefined) {
    return (
      <CodeBlock title={encoding === "utf-8" ? "Body" : "Body in Base64"} text={body} what="body" />
    );
  }
  const choice = (
    <Segments label="Form of the body" options={FORMS} value={form} choose={setForm} />
  );
  return form === "raw" ? (
    <CodeBlock title="Body" text={body} what="body">
      {choice}
    </CodeBlock>
  ) : (
    <JsonPanel title="Body" value={json} depth={4} tools={choice} />
  );
}

function answeredText({ answered: { how, status, after_ms: ms } }: InboxMessage): string {
  const after = ms === null || ms === 0 ? "" : ` after ${durationText(ms)}`;
  switch (how) {
    case "waiting":
      return "not answered yet";
    case "sent":
      return `answered ${status}${after}`;
    case "reset":
      return `reset${after}`;
    case "gone":
      return `given up by the sender${after}`;
  }
}
