import { render } from "preact";
import { App } from "./app.tsx";
import "./style/style.css";

render(<App />, document.getElementById("app")!);
