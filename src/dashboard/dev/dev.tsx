import { useState } from "preact/hooks";

import type { InboxBox } from "../../api/dev.ts";
import type { WrittenAnswer } from "../../domain/webhook/inbox.ts";
import { announce } from "../part/announcer.tsx";
import { Button, CopyButton, Segments } from "../part/control.tsx";
import { ActionDialog } from "../part/dialog.tsx";
import { Time } from "../part/figure.tsx";
import { Empty, Loaded, Panel, Problem, ScreenHead } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import type { DraftField } from "../post/task-draft.ts";
import { type FieldProps, TextField } from "../post/task-fields.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useResource, useSubmission } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { Message } from "./message.tsx";

export { ClockBar } from "./clock-bar.tsx";

/**
 * The screens of a daemon for development, below `/inbox`. They are a script of their own, which no other daemon's page
 * loads: nothing else may import this file but by `import()`.
 */
export function InboxScreen({ box }: { readonly box: string | undefined }) {
  return box === undefined ? <BoxesScreen /> : <BoxScreen key={box} box={box} />;
}

const POLL_MS = 2000;

/** The inboxes of the daemon. */
export function BoxesScreen() {
  const boxes = useResource("inboxes", (load) => call("GET /dev/inbox", load), { pollMs: POLL_MS });
  return (
    <>
      <ScreenHead title="Inbox" />
      <Loaded resource={boxes}>
        {({ boxes: all }) =>
          all.length === 0 ? (
            <Empty title="Nothing was received yet">
              <p>
                Whatever is sent to <code>{globalThis.location.origin}/inbox/NAME</code> is shown
                here, with a verdict on its signature. Post a task with that URL as its{" "}
                <code>postback_url</code>.
              </p>
            </Empty>
          ) : (
            <Panel title="Boxes">
              <Table label="Boxes" columns={COLUMNS} rows={all} keyOf={({ box }) => box} />
            </Panel>
          )
        }
      </Loaded>
    </>
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
export function BoxScreen({ box }: { readonly box: string }) {
  const [isEmptying, setEmptying] = useState(false);
  const params = { box };
  const query = { last: SHOWN_MAX };
  const messages = useResource(
    `inbox ${box}`,
    (load) => call("GET /dev/inbox/:box", { ...load, params, query }),
    { pollMs: POLL_MS },
  );
  const url = `${globalThis.location.origin}/inbox/${box}`;
  return (
    <>
      <ScreenHead title={`Inbox ${box}`}>
        <a href={hrefOf("/inbox")}>All boxes</a>
        <Button press={() => setEmptying(true)}>Empty it</Button>
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
      {isEmptying && (
        <ActionDialog
          title={`Empty the inbox ${box}`}
          verb="Empty it"
          otherwise="Close"
          isDanger
          work={() => call("DELETE /dev/inbox/:box", { params })}
          announcement={`The inbox ${box} is empty.`}
          close={() => setEmptying(false)}
          done={messages.reload}
        >
          <p>Its messages go, and the answers that were set for it: it answers 200 again.</p>
        </ActionDialog>
      )}
    </>
  );
}

/** Sets how an inbox answers its next messages. */
export function AnswerForm({ box }: { readonly box: string }) {
  const [next, setNext] = useState("");
  const [last, setLast] = useState("");
  const submission = useSubmission();
  async function set(): Promise<void> {
    const answers = readAnswers(next);
    const [then] = readAnswers(last);
    await call("PUT /dev/inbox/:box/answers", { params: { box }, body: { answers, then } });
    announce(`The inbox ${box} answers so from now on.`);
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
        <Field
          name="Next, one by one"
          example="500, hang, reset, 503 after 300"
          value={next}
          change={setNext}
        />
        <Field name="Then" example="200" value={last} change={setLast} />
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
    `“${word}” is no answer: write a status such as 503, hang, reset, or 503 after 300 (milliseconds).`,
  );
}

interface AnswerFieldProps {
  readonly name: string;
  readonly example: string;
  readonly value: string;
  readonly change: (value: string) => void;
}

function Field({ name, example, value, change }: AnswerFieldProps) {
  return (
    <label class="field">
      {name}
      <input
        value={value}
        placeholder={example}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}

interface TargetFieldProps extends FieldProps {
  readonly field: "postback_url" | "pingback_url";
}

const KINDS = [
  { value: "url", text: "URL" },
  { value: "inbox", text: "Inbox" },
] as const;

const WORDS = {
  postback_url: { inbox: "Postback inbox", choice: "Where the postback goes" },
  pingback_url: { inbox: "Pingback inbox", choice: "Where the pingback goes" },
} as const;

// The one that the daemon's own account has.
const STANDARD_BOX = "dev";

/** Where a webhook goes: to a URL, or to an inbox of this daemon, whose name is what its URL ends with. */
export function TargetField(props: TargetFieldProps) {
  const { draft, field, change } = props;
  const base = `${globalThis.location.origin}/inbox/`;
  const isInbox = draft[field].startsWith(base);
  const ofInbox = {
    label: WORDS[field].inbox,
    hint: "The name of an inbox of this daemon, which receives it.",
    draft: { ...draft, [field]: draft[field].slice(base.length) },
    change: (name: DraftField, box: string) => change(name, base + box),
  };
  return (
    <div class="field-pair">
      <TextField {...props} {...(isInbox && ofInbox)} />
      <div class="field">
        <span>Sent to</span>
        <Segments
          label={WORDS[field].choice}
          options={KINDS}
          value={isInbox ? "inbox" : "url"}
          choose={(kind) => change(field, kind === "inbox" ? base + STANDARD_BOX : "")}
        />
      </div>
    </div>
  );
}
