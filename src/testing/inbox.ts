import type { Answers, Bodies, Queries } from "../client/api.ts";
import { JsonText, type Transport } from "../client/transport.ts";

type Page = Answers["GET /dev/inbox/:box"];
type Received = Page["messages"][number];

/** A request that an inbox has received. */
export interface Message extends Omit<Received, "headers"> {
  /** By their names in lower case; several of one name in one, with commas between them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** An answer of an inbox: an HTTP status, a word such as `"hang"` or `"reset"`, or all of a response. */
export type InboxAnswer = NonNullable<Bodies["PUT /dev/inbox/:box/answers"]["then"]>;

export interface MessageFilter {
  readonly kind?: NonNullable<Message["kind"]> | undefined;
  /** Of the task with this id. */
  readonly task?: string | undefined;
}

export interface MessagesOptions extends MessageFilter {
  /** How many there must be; it is waited for them. */
  readonly count?: number | undefined;
  /** How long, in seconds of the machine's time; 10 unless given. */
  readonly wait?: number | undefined;
}

/** A receiver of the daemon's own, with a name. */
export interface Inbox {
  /** For `postback_url` and `pingback_url`; paths and queries may follow. */
  readonly url: string;
  /** The messages, oldest first. With a `count` it waits for that many messages, and rejects if they do not arrive. */
  messages(options?: MessagesOptions): Promise<readonly Message[]>;
  /** The next message that this object has not given yet; waits for it as `messages` does. */
  next(options?: Omit<MessagesOptions, "count">): Promise<Message>;
  /** Responds to the next requests with these, one by one, and to all later requests with `then`: 200 unless given. */
  answer(answers: readonly InboxAnswer[], then?: InboxAnswer): Promise<void>;
  /** Forgets all messages, and the answers that were ordered. */
  clear(): Promise<void>;
}

const WAIT_SECONDS = 10;

/** The inbox of this name; `url` is where it receives. */
export function inboxOf(
  transport: Transport,
  { box, url }: { readonly box: string; readonly url: string },
): Inbox {
  const given = new Set<number>();
  const look = async (query: Queries["GET /dev/inbox/:box"]): Promise<readonly Message[]> => {
    const messages: Message[] = [];
    for (let after: number | null | undefined = query.after; after !== null;) {
      // The first page has waited for all of them.
      const { count: _count, wait: _wait, ...filter } = query;
      const request = {
        params: { box },
        query: messages.length === 0 ? { ...query, after } : { ...filter, after },
      };
      const page: Page = await transport.call("GET /dev/inbox/:box", request);
      messages.push(...page.messages.map(toMessage));
      after = page.next_after;
    }
    const { count = 0, wait } = query;
    if (messages.length >= count) return messages;
    const came = `${messages.length} of ${count} ${filterText(query)}messages came`;
    throw new Error(`The inbox ${box}: ${came} within ${wait} s.`);
  };
  return {
    url,
    messages: ({ count, wait = WAIT_SECONDS, ...filter } = {}) =>
      look(count === undefined ? filter : { ...filter, count, wait }),
    async next({ wait = WAIT_SECONDS, ...filter } = {}) {
      const isNew = ({ seq }: Message): boolean => !given.has(seq);
      const before = (await look(filter)).filter((each) => !isNew(each)).length;
      const message = (await look({ ...filter, count: before + 1, wait })).find(isNew);
      if (message === undefined)
        throw new TypeError("The response of the daemon does not have the message.");
      given.add(message.seq);
      return message;
    },
    async answer(answers, then = 200) {
      // An object with a member of that name would look like a promise.
      const members = Object.fromEntries([
        ["answers", answers],
        ["then", then],
      ]);
      const body = new JsonText(JSON.stringify(members));
      await transport.call("PUT /dev/inbox/:box/answers", { params: { box }, body });
    },
    async clear() {
      await transport.call("DELETE /dev/inbox/:box", { params: { box } });
    },
  };
}

function toMessage({ headers, ...rest }: Received): Message {
  const joined = new Headers();
  for (const [name, value] of headers) joined.append(name, value);
  return { ...rest, headers: Object.fromEntries(joined) };
}

function filterText({ kind, task }: MessageFilter): string {
  return `${kind === undefined ? "" : `${kind} `}${task === undefined ? "" : `task ${task}'s `}`;
}
