import type { ComponentChildren } from "preact";

import { Button } from "../part/control.tsx";
import { route, setQuery } from "../shell/route.ts";

interface PagesProps {
  /** The cursor of the next page; null on the last one. */
  readonly next: string | null;
  /** A hint beside the buttons. */
  readonly children?: ComponentChildren;
}

/** The way through the pages of a list, whose cursor is in the URL. */
export function Pages({ next, children }: PagesProps) {
  const isFirst = route.value.query.get("cursor") === null;
  return (
    <div class="pages">
      {children}
      {!isFirst && <Button press={() => setQuery({ cursor: null })}>First page</Button>}
      {next !== null && <Button press={() => setQuery({ cursor: next })}>Next page</Button>}
    </div>
  );
}
