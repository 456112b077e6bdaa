import { z } from "zod";

import { Durations } from "../kit/durations.ts";
import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { runLoad } from "../kit/load.ts";

const loadJob = z.object({
  port: z.number(),
  connections: z.number(),
  /** A whole request as text of ASCII characters. */
  request: z.string(),
  /** Not counted: what the server does until its code is compiled. */
  warmUpMs: z.number(),
  /** Ends the load, counted from the end of the warm-up, or a number of answers in all. */
  until: z.union([z.object({ measuredMs: z.number() }), z.object({ answers: z.number() })]),
});

/** What the generator is to send, and for how long. */
export type LoadJob = Readonly<z.infer<typeof loadJob>>;

const loadReport = z.object({
  /** Answers after the warm-up, and the time they took. */
  answers: z.number(),
  seconds: z.number(),
  /** Answers with those of the warm-up. */
  answersInAll: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
});

/** What came back, and how long it was waited for. */
export type LoadReport = Readonly<z.infer<typeof loadReport>>;

/** A load generator in a process of its own. */
export class LoadGenerator {
  readonly #helper = new HelperProcess(new URL(import.meta.url));

  /** Rejects at the first answer that is not 200 or that refuses a task. */
  async run(job: LoadJob): Promise<LoadReport> {
    const answer = z.union([loadReport, z.object({ error: z.string() })]);
    const report = answer.parse(await this.#helper.ask(job));
    if ("error" in report) throw new Error(report.error);
    return report;
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

async function generate(job: LoadJob): Promise<LoadReport> {
  const answers = new Durations();
  const measureFrom = performance.now() + job.warmUpMs;
  let endedAt = measureFrom;
  let answersInAll = 0;
  const { broken } = await runLoad({
    ...job,
    request: Buffer.from(job.request, "latin1"),
    goesOn: goesOn(job.until, measureFrom),
    onAnswer: (answer, latencyMs) => {
      requireServed(answer);
      answersInAll++;
      endedAt = performance.now();
      if (endedAt >= measureFrom) answers.add(latencyMs);
    },
  });
  if (broken > 0) throw new Error(`the server closed ${broken} connections`);
  const seconds = (endedAt - measureFrom) / 1000;
  const [p50Ms, p99Ms] = [answers.quantile(0.5), answers.quantile(0.99)];
  return { answers: answers.count, seconds, answersInAll, p50Ms, p99Ms };
}

function goesOn(until: LoadJob["until"], measureFrom: number): () => boolean {
  if ("measuredMs" in until) {
    const end = measureFrom + until.measuredMs;
    return () => performance.now() < end;
  }
  let left = until.answers;
  return () => left-- > 0;
}

function requireServed({ head, body }: HttpMessage): void {
  if (head.startsWith("HTTP/1.1 200") && body.includes('"tasks_error":0')) return;
  const excerpt = body.toString("utf8", 0, 500);
  throw new Error(`the server answered ${head.split("\r\n", 1)[0]}: ${excerpt}`);
}

if (import.meta.main) {
  answerMessages((message) => {
    return generate(loadJob.parse(message)).catch((error) => ({ error: String(error) }));
  });
}
