import { z } from "zod";

import { defineCommand } from "../kit/command.ts";
import { DaemonProcess } from "../kit/daemon-process.ts";
import { epochMs, type Spread } from "../kit/durations.ts";
import { SPREAD_FIGURES, figureTable, type Figure } from "../kit/figures.ts";
import { number, whole } from "../kit/flags.ts";
import { runOpenLoad } from "../kit/open-load.ts";
import { processUsage } from "../kit/processes.ts";
import { requestText, requireTaken, servedText } from "../kit/request.ts";
import { factTable } from "../kit/text-table.ts";

// What docs/limits.md says of inboxes; whether it holds is what is looked at here.
const BOX_MESSAGES_MAX = 1000;
const INBOX_BYTES_MAX = 256 * 1024 ** 2;

const CONNECTIONS = 64;
const OTHERS_PER_SECOND = 10;
// So many that none waits for a connection.
const OTHERS_CONNECTIONS = 20;
const SOON_MS = 500;
const WARM_UP_MS = 3000;
const MIB = 1024 ** 2;

const ANSWERS: Figure<Spread> = { name: "answers", value: ({ count }) => count };

const account = z.object({ key: z.string() });
const boxList = z.object({ boxes: z.array(z.object({ box: z.string(), messages: z.number() })) });

export const command = defineCommand({
  about: `Sends messages to the inboxes of 'postbackd dev' at a steady rate, while another client posts tasks, and looks whether
the bounds of inboxes hold. Fails when one does not, and when the daemon or this machine cannot keep the rate.`,
  flags: {
    rate: whole("messages a second", 10_000),
    boxes: whole("inboxes that they go to in turn", 100),
    bytes: whole("bytes of a message's body", 4096),
    seconds: number("how long it is measured", 20),
  },
  async run({ rate, boxes, bytes, seconds }, { place: { program, folder }, print }) {
    const flags = ["--port", "0"];
    await using daemon = await DaemonProcess.start({ program, folder, verb: "dev", flags });
    const idle = processUsage(daemon.pid).rssBytes;
    const from = epochMs() + SOON_MS;
    const countedFrom = from + WARM_UP_MS;
    const time = { port: daemon.port, from, countedFrom, to: countedFrom + seconds * 1000 };
    const body = JSON.stringify("m".repeat(bytes - 2));
    const [messages, posts] = await Promise.all([
      runOpenLoad({
        ...time,
        connections: CONNECTIONS,
        perSecond: rate,
        requestAt: (_, index) => requestText(`POST /inbox/box-${index % boxes}`, { body }),
        require: servedText,
      }),
      postTasks(daemon, time),
    ]);
    const rows = [
      { what: [`${rate} messages a second`], runs: [messages.answers] },
      { what: [`${OTHERS_PER_SECOND} task_post a second`], runs: [posts.answers] },
    ];
    print(figureTable([ANSWERS, ...SPREAD_FIGURES], rows));
    print(`\n${await boundsOf(daemon, { sent: messages.sent, bytes, idle })}`);
    await daemon.stop();
  },
});

type Time = Pick<Parameters<typeof runOpenLoad>[0], "port" | "from" | "countedFrom" | "to">;

async function postTasks({ url }: DaemonProcess, time: Time) {
  const made = await fetch(`${url}/dev/accounts`, { method: "POST" });
  const { key: secret } = account.parse(await made.json());
  const post = requestText("POST /v1/tasks/task_post", { secret, body: '[{"input":1}]' });
  return runOpenLoad({
    ...time,
    connections: OTHERS_CONNECTIONS,
    perSecond: OTHERS_PER_SECOND,
    requestAt: () => post,
    require: requireTaken,
  });
}

interface Facts {
  readonly sent: number;
  readonly bytes: number;
  /** Before the first message. */
  readonly idle: number;
}

/** The bounds as a table. Throws where one does not hold. */
async function boundsOf({ url, pid }: DaemonProcess, { sent, bytes, idle }: Facts) {
  const { boxes } = boxList.parse(await (await fetch(`${url}/dev/inbox`)).json());
  const kept = boxes.reduce((sum, { messages }) => sum + messages, 0);
  const most = Math.max(...boxes.map(({ messages }) => messages));
  if (most > BOX_MESSAGES_MAX) throw new Error(`a box holds ${most} messages`);
  if (kept * bytes > INBOX_BYTES_MAX)
    throw new Error(`${kept} messages of ${bytes} bytes are kept`);
  const mib = (value: number): string => (value / MIB).toFixed(0);
  return factTable([
    ["messages sent", sent],
    ["messages kept", kept],
    ["most in one box", most],
    ["bodies kept, MiB", mib(kept * bytes)],
    ["memory before the first, MiB", mib(idle)],
    ["memory at most, MiB", mib(processUsage(pid).rssBytesMax)],
  ]);
}
