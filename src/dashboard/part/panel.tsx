import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import type { Resource } from "../shell/resource.ts";
import { Button } from "./control.tsx";

interface PanelProps {
  readonly title: ComponentChildren;
  /** Quieter text beside the title. */
  readonly note?: string;
  /** Buttons and fields at the end of the head. */
  readonly tools?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a screen with a head of its own. */
export function Panel({ title, note, tools, children }: PanelProps) {
  const id = useId();
  return (
    <section class="panel" aria-labelledby={id}>
      <div class="row pad rule-below panel-head">
        <h2 id={id}>
          {title}
          {note !== undefined && <span class="hint"> {note}</span>}
        </h2>
        {tools}
      </div>
      {children}
    </section>
  );
}

/** A part of a list that opens. */
export function Fold({ title, children }: Pick<PanelProps, "title" | "children">) {
  return (
    <details class="rule-above">
      <summary class="pad hint">{title}</summary>
      {children}
    </details>
  );
}

interface ScreenProps<T> extends Omit<PanelProps, "note" | "children"> {
  readonly resource: Resource<T>;
  readonly children: (data: T) => ComponentChildren;
  /** Parts below the data, which do not depend on it. */
  readonly below?: ComponentChildren;
}

/** A screen that shows one resource, with a head. */
export function Screen<T>({ title, tools, resource, children, below }: ScreenProps<T>) {
  return (
    <>
      <ScreenHead title={title}>{tools}</ScreenHead>
      <div class="stack">
        <Loaded resource={resource}>{children}</Loaded>
        {below}
      </div>
    </>
  );
}

export function ScreenHead({
  title,
  children,
}: Pick<PanelProps, "title"> & Partial<Pick<PanelProps, "children">>) {
  return (
    <div class="row screen-head">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

/** Text on one line, shortened to the width; the whole text on hover. */
export function Clipped({ text }: { readonly text: string }) {
  return (
    <bdi class="clipped" title={text}>
      {text}
    </bdi>
  );
}

/** The placeholder of a missing value. */
export function None({ text = "–" }: { readonly text?: string }) {
  return <span class="none">{text}</span>;
}

/** A problem in a frame of its own, with a way to try again. */
export function Problem({ text, retry }: { readonly text: string; readonly retry?: () => void }) {
  return (
    <div class="row pad wraps notice tone-bad" role="alert">
      <p>{text}</p>
      {retry && <Button press={retry}>Try again</Button>}
    </div>
  );
}

interface Point {
  readonly word: string;
  readonly tone: "bad" | "warn";
  readonly text: ComponentChildren;
  readonly after?: ComponentChildren;
}

/** A panel of points that need attention. */
export function PointList(props: { readonly title: string; readonly points: readonly Point[] }) {
  return (
    <Panel title={props.title}>
      <ul>
        {props.points.map(({ word, tone, text, after }, place) => (
          <li key={place} class="point">
            <span class={`badge tone-${tone}`}>{word}</span>
            <p>{text}</p>
            {after}
          </li>
        ))}
      </ul>
    </Panel>
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
    <div class="stack stack-small empty">
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
