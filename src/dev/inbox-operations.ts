import { isUtf8 } from "node:buffer";

import type { InboxMessage as InboxMessageShown } from "../api/dev.ts";
import { timeText } from "../domain/clock/time.ts";
import type { DeliveryKind } from "../domain/webhook/delivery.ts";
import { BOX_PATTERN, PLAIN_ANSWER } from "../domain/webhook/inbox.ts";
import { boxName } from "../http/inbox.ts";
import { type Call, type Operation, defineOperation } from "../http/operation.ts";
import type { InboxBoxes, InboxMessage } from "./inbox-boxes.ts";
import type { Inbox } from "./inbox.ts";

const BOX_PARAM = {
  description: "The name of an inbox: what follows `/inbox/` in its URL.",
  schema: { type: "string", pattern: BOX_PATTERN },
  example: "shop",
} as const;

/** The messages in the inboxes of a daemon for development, and how those answer. */
export function devInbox(inbox: Inbox): readonly Operation[] {
  return [
    boxList(inbox.boxes),
    messageList(inbox),
    boxRemove(inbox.boxes),
    answersSet(inbox.boxes),
  ];
}

function boxList(boxes: InboxBoxes): Operation {
  return defineOperation("GET /dev/inbox", {
    access: "developer",
    id: "listInboxes",
    summary: "List the inboxes",
    description: "Each receives all requests to `/inbox/{box}`, and is created at its first use.",
    handle: () => ({
      fields: {
        boxes: boxes.list().map(({ box, messages }) => {
          const last = messages.at(-1);
          const at = last === undefined ? null : timeText(last.receivedAt);
          return { box, messages: messages.length, last_received_at: at };
        }),
      },
    }),
  });
}

function messageList(inbox: Inbox): Operation {
  return defineOperation("GET /dev/inbox/:box", {
    access: "developer",
    id: "listInboxMessages",
    summary: "List the messages of an inbox",
    description:
      "The last 1,000 messages with the verdicts on their signatures. An unknown box is empty. With `wait` the " +
      "response is delayed until `count` messages exist.",
    params: { box: BOX_PARAM },
    codes: [42900],
    async handle({ query, ...call }) {
      const box = boxOf(call);
      const isWanted = wantedBy(query);
      if (query.wait > 0 && !call.isHead) {
        const wanted = { isWanted, count: query.count, ms: query.wait * 1000, gone: call.gone() };
        await call.room.whileWaiting(() => inbox.wait(box, wanted));
        await call.room.forAnswer();
      }
      const all = inbox.boxes.messages(box).filter(isWanted).slice(-query.last);
      const shown = firstPart(all);
      const isWhole = shown.length === all.length;
      const next_after = isWhole ? null : (shown.at(-1)?.seq ?? null);
      return { fields: { messages: shown.map(toDocument), next_after } };
    },
  });
}

function boxRemove(boxes: InboxBoxes): Operation {
  return defineOperation("DELETE /dev/inbox/:box", {
    access: "developer",
    id: "emptyInbox",
    summary: "Empty an inbox",
    description: "Removes its messages and its configured responses.",
    params: { box: BOX_PARAM },
    handle(call) {
      boxes.remove(boxOf(call));
      return { fields: {} };
    },
  });
}

function answersSet(boxes: InboxBoxes): Operation {
  return defineOperation("PUT /dev/inbox/:box/answers", {
    access: "developer",
    id: "setInboxAnswers",
    summary: "Set the responses of an inbox",
    description:
      "Each is an HTTP status or an object; `hang` never responds, until the sender gives up; `reset` resets the " +
      "connection. `after_ms` is time of the daemon's clock. Replaces the previous configuration.",
    params: { box: BOX_PARAM },
    codes: [42900],
    examples: {
      retries: {
        answers: [500, "hang", "reset", { status: 503, after_ms: 300 }],
        then: 200,
      },
    },
    handle({ body: { answers, then: last }, ...call }) {
      boxes.setAnswers(boxOf(call), { answers: answers ?? [], last: last ?? PLAIN_ANSWER });
      return { fields: {} };
    },
  });
}

function boxOf({ params }: Pick<Call, "params">): string {
  return boxName(params["box"] ?? "");
}

interface Wanted {
  readonly task: string | null;
  readonly kind: DeliveryKind | null;
  readonly after: number;
}

function wantedBy({ task, kind, after }: Wanted): (message: InboxMessage) => boolean {
  return (message) =>
    message.seq > after &&
    (task === null || message.taskId === task) &&
    (kind === null || message.kind === kind);
}

// A body of control characters takes six times its bytes in JSON, and a text has at most half a GiB.
const ANSWER_BYTES_MAX = 16 * 1024 ** 2;

/** The first messages that one answer may hold: one in any case. */
function firstPart(messages: readonly InboxMessage[]): readonly InboxMessage[] {
  let bytes = 0;
  const end = messages.findIndex(({ body }, index) => {
    bytes += body.length;
    return index > 0 && bytes > ANSWER_BYTES_MAX;
  });
  return end === -1 ? messages : messages.slice(0, end);
}

function toDocument(message: InboxMessage): InboxMessageShown {
  const { seq, method, target, url, headers, kind, taskId, attempt, signature, answered } = message;
  const isText = isUtf8(message.body);
  const bytes = Buffer.from(message.body.buffer, message.body.byteOffset, message.body.length);
  return {
    seq,
    received_at: timeText(message.receivedAt),
    method,
    url: target,
    full_url: url,
    headers: headers.map((line) => [...line]),
    body: bytes.toString(isText ? "utf8" : "base64"),
    body_encoding: isText ? "utf-8" : "base64",
    kind,
    task_id: taskId,
    attempt,
    signature,
    answered,
  };
}
