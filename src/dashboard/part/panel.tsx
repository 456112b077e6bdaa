import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

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
      <div class="panel-head">
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

/** The head of a screen. */
export function ScreenHead({
  title,
  children,
}: Pick<PanelProps, "title"> & Partial<Pick<PanelProps, "children">>) {
  return (
    <div class="screen-head">
      <h1>{title}</h1>
      {children}
    </div>
  );
}

/** Text on one line, cut where there is no room; the whole of it on hover. */
export function Clipped({ text }: { readonly text: string }) {
  return (
    <bdi class="clipped" title={text}>
      {text}
    </bdi>
  );
}

/** The placeholder where there is no value. */
export function None({ text = "–" }: { readonly text?: string }) {
  return <span class="none">{text}</span>;
}
