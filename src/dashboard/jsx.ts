/** JSX is compiled to calls of these two: the build adds them to every file with JSX. */
export { Fragment, h } from "preact";
