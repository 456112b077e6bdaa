import { Durations, type Spread } from "./durations.ts";
import { helperProcess } from "./helper-process.ts";
import { runLoad } from "./load.ts";
import { requireTaken } from "./request.ts";

/** The generator's order: the requests, and for how long. */
export interface LoadJob {
  readonly port: number;
  readonly connections: number;
  /** A whole request as text of ASCII characters. */
  readonly request: string;
  /** Not counted: what the server does until its code is compiled. */
  readonly warmUpMs: number;
  /** Ends the load, counted from the end of the warm-up, or a number of answers in all. */
  readonly until: { readonly measuredMs: number } | { readonly answers: number };
}

/** The answers, and how long each took. */
export interface LoadReport extends Omit<Spread, "count"> {
  /** Answers after the warm-up, and the time they took. */
  readonly answers: number;
  readonly seconds: number;
  /** Answers with those of the warm-up. */
  readonly answersInAll: number;
}

class Generator {
  /** Rejects at the first answer that is not 200 or that refuses a task. */
  async run(job: LoadJob): Promise<LoadReport> {
    const answers = new Durations();
    const measureFrom = performance.now() + job.warmUpMs;
    let endedAt = measureFrom;
    let answersInAll = 0;
    const { broken } = await runLoad({
      ...job,
      request: Buffer.from(job.request, "latin1"),
      goesOn: goesOn(job.until, measureFrom),
      onAnswer: (answer, latencyMs) => {
        requireTaken(answer);
        answersInAll++;
        endedAt = performance.now();
        if (endedAt >= measureFrom) answers.add(latencyMs);
      },
    });
    if (broken > 0) throw new Error(`the server closed ${broken} connections`);
    const seconds = (endedAt - measureFrom) / 1000;
    const { count, ...spread } = answers.spread;
    return { answers: count, seconds, answersInAll, ...spread };
  }
}

function goesOn(until: LoadJob["until"], measureFrom: number): () => boolean {
  if ("measuredMs" in until) {
    const end = measureFrom + until.measuredMs;
    return () => performance.now() < end;
  }
  let left = until.answers;
  return () => left-- > 0;
}

/** A load generator in a process of its own. */
export class LoadGenerator extends helperProcess(import.meta, Generator) {}
