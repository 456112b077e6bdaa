interface SegmentsProps<Value extends string> {
  /** What is chosen, for screen readers. */
  readonly label: string;
  readonly options: readonly { readonly value: Value; readonly text: string }[];
  /** Null: none of them. */
  readonly value: Value | null;
  readonly choose: (value: Value) => void;
}

/** A choice of a few, all of them seen. */
export function Segments<Value extends string>(props: SegmentsProps<Value>) {
  const { label, options, value: chosen, choose } = props;
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(({ value, text }) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === chosen}
          onClick={() => choose(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
