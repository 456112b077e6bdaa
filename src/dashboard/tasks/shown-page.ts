import { useState } from "preact/hooks";

import { followPage, freshPage, type ShownPage, type TaskPage } from "./task-page.ts";

/** A page as it is shown at a place. */
export interface KeptPage {
  readonly place: string;
  /** The page of the last read. */
  readonly fresh: TaskPage;
  readonly page: ShownPage;
}

/**
 * The shown page, while newer states of it are read: tasks stay in place. Another place begins anew; the first one
 * begins with `found`, where that was kept. Also returns a function that shows the tasks that have come since.
 */
export function useShownPage(
  place: string,
  { fresh, found }: { readonly fresh: TaskPage | null; readonly found: KeptPage | null },
): readonly [kept: KeptPage | null, showArrived: () => void] {
  const [kept, setKept] = useState(found);
  const before = kept?.place === place ? kept : null;
  let now = before;
  if (fresh !== null && fresh !== before?.fresh) {
    const page = before === null ? freshPage(fresh) : followPage(before.page, fresh);
    now = { place, fresh, page };
    setKept(now);
  }
  function showArrived(): void {
    if (now === null) return;
    setKept({ ...now, page: freshPage(now.fresh) });
    globalThis.scrollTo(0, 0);
  }
  return [now, showArrived];
}
