import type { ComponentChildren } from "preact";

import type { Resource } from "../shell/resource.ts";
import { Button } from "./button.tsx";

/** A problem in a frame of its own, with a way to try again. */
export function Problem({ text, retry }: { readonly text: string; readonly retry?: () => void }) {
  return (
    <div class="notice notice-problem" role="alert">
      <p>{text}</p>
      {retry && <Button press={retry}>Try again</Button>}
    </div>
  );
}

interface EmptyProps {
  readonly title: string;
  /** True where the screen holds nothing else: the title is its heading. */
  readonly isAlone?: boolean;
  /** The next steps. */
  readonly children?: ComponentChildren;
}

/** The placeholder for an empty place. */
export function Empty({ title, isAlone = false, children }: EmptyProps) {
  const Title = isAlone ? "h1" : "p";
  return (
    <div class="empty">
      <Title class="empty-title">{title}</Title>
      {children}
    </div>
  );
}

interface LoadedProps<T> {
  readonly resource: Resource<T>;
  readonly children: (data: T) => ComponentChildren;
}

/** The resource's data; before the first read a quiet line, and its problem above it where there is one. */
export function Loaded<T>({ resource, children }: LoadedProps<T>) {
  const { data, problem, reload } = resource;
  return (
    <>
      {problem !== null && <Problem text={problem} retry={reload} />}
      {data === null ? problem === null && <p class="loading">Loading…</p> : children(data)}
    </>
  );
}
