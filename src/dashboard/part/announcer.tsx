import { signal } from "@preact/signals";

interface Announcement {
  readonly text: string;
  readonly isProblem: boolean;
}

const announcement = signal<Announcement | null>(null);

const SHOWN_MS = 6000;
let timer: ReturnType<typeof setTimeout> | null = null;

/** Shows a message in a corner of the page, and reads it to screen readers. */
export function announce(text: string, { isProblem = false } = {}): void {
  if (timer !== null) clearTimeout(timer);
  announcement.value = { text, isProblem };
  timer = setTimeout(() => {
    announcement.value = null;
  }, SHOWN_MS);
}

/** The place of the announcements. There is one on the page. */
export function Announcer() {
  const shown = announcement.value;
  return (
    <div class="announcer" aria-live="polite" role="status">
      {shown && (
        <p class={shown.isProblem ? "pad toast toast-problem" : "pad toast"}>{shown.text}</p>
      )}
    </div>
  );
}
