import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { InboxMessage } from "../../api/dev.ts";
import { Segments } from "../part/control.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { Clipped, Panel } from "../part/panel.tsx";
import { durationText } from "../shell/format.ts";
import { hrefOf } from "../shell/route.ts";
import { type JsonSource, parseJsonSource } from "../task/json-source.ts";
import { CodeBlock, JsonView } from "../task/json-view.tsx";

/** A message of an inbox: a line, with everything else below it. */
export function Message({ message }: { readonly message: InboxMessage }) {
  const [isOpen, setOpen] = useState(false);
  const { seq, received_at: at, method, url, kind, attempt, signature } = message;
  return (
    <details class="fold" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
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
    <Pretty json={json}>{choice}</Pretty>
  );
}

interface PrettyProps {
  readonly json: JsonSource;
  readonly children: ComponentChildren;
}

function Pretty({ json, children }: PrettyProps) {
  return (
    <Panel title="Body" tools={children}>
      <div class="panel-body">
        <JsonView value={json} depth={4} />
      </div>
    </Panel>
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
