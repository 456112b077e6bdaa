import type { Logger } from "../domain/log.ts";
import { WAITING_COUNTED_MAX, type Gauges, type Observer } from "../domain/observer.ts";
import type { Engine } from "../run/engine.ts";
import type { Store } from "../store/store.ts";

/** The same observer for the rings: what it throws, at once or later, ends here, and the first of it is logged. */
export function guardObserver(observer: Observer, log: Logger): Observer {
  let hasFailed = false;
  const note = (err: unknown): void => {
    if (hasFailed) return;
    hasFailed = true;
    log.error(
      { err },
      "the observer threw; it is told of what follows, and this is not logged again",
    );
  };
  function guarded<Event>(tell: ((event: Event) => void) | undefined) {
    if (tell === undefined) return undefined;
    return (event: Event): void => void Promise.try(tell, event).catch(note);
  }
  return {
    request: guarded(observer.request?.bind(observer)),
    commit: guarded(observer.commit?.bind(observer)),
    refusal: guarded(observer.refusal?.bind(observer)),
    post: guarded(observer.post?.bind(observer)),
    start: guarded(observer.start?.bind(observer)),
    run: guarded(observer.run?.bind(observer)),
    end: guarded(observer.end?.bind(observer)),
    attempt: guarded(observer.attempt?.bind(observer)),
  };
}

interface GaugeParts {
  readonly store: Pick<Store, "listTypeWork">;
  readonly engine: Pick<Engine, "lanes">;
  readonly types: readonly string[];
}

/** Looks at how much there is; the queue is counted in a thread of its own. */
export async function readGauges({ store, engine, types }: GaugeParts): Promise<Gauges> {
  const works = await store.listTypeWork({ types, waitingMax: WAITING_COUNTED_MAX });
  const queue = works.map(({ type, waiting, isMoreWaiting }) => ({ type, waiting, isMoreWaiting }));
  return { queue, lanes: engine.lanes };
}
