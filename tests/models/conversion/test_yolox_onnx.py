"""YOLOX-nano out of its ONNX file: our network computes what the file does."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save_file

from models.conversion.authors_options import ConversionError
from models.conversion.yolox_onnx import convert_yolox, read_yolox
from models.extractors.faster_rcnn.yolox import YoloxNano, letterbox

SIDE = 416


@pytest.mark.realdata
def test_the_network_computes_what_the_file_does(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    import onnxruntime  # noqa: PLC0415

    file = data_dir / "weights-yolox-nano" / "yolox_nano.onnx"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    network = read_yolox(convert_yolox(file, tmp_path))
    inputs = [np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE)).astype(np.float32)]
    for path in sorted((data_dir / "coco-mini-80").rglob("*.jpg"))[:2]:
        boxed = letterbox(PIL.Image.open(path).convert("RGB"), SIDE)
        canvas = torch.full((3, SIDE, SIDE), 114.0)
        canvas[:, : boxed.pixels.shape[1], : boxed.pixels.shape[2]] = boxed.pixels.flip(0)
        inputs.append(canvas.numpy())
    assert len(inputs) == 3
    for pixels in inputs:
        expected = session.run(None, {"images": pixels[None]})[0]
        torch.testing.assert_close(
            network(torch.from_numpy(pixels)[None]), torch.from_numpy(expected), rtol=1e-3, atol=1e-3
        )


def test_a_converted_file_is_not_replaced(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_file(YoloxNano(80).state_dict(), tmp_path / "other.safetensors")
    convert_yolox(tmp_path / "other.safetensors", tmp_path)
    with pytest.raises(FileExistsError, match="already"):
        convert_yolox(tmp_path / "other.safetensors", tmp_path)


def test_another_network_is_refused(tmp_path: Path) -> None:
    save_file(YoloxNano(3).state_dict(), tmp_path / "three.safetensors")
    with pytest.raises(ConversionError, match="YOLOX-nano's weights"):
        read_yolox(tmp_path / "three.safetensors")


def test_a_graph_of_other_convolutions_is_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.zeros((4, 3, 1, 1), np.float32), "w")
    bias = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "b")
    node = onnx.helper.make_node("Conv", ["x", "w", "b"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weight, bias])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "one.onnx")
    with pytest.raises(ConversionError, match="1 convolutions"):
        read_yolox(tmp_path / "one.onnx")
    (tmp_path / "none.onnx").write_bytes(b"\xff" * 20)
    with pytest.raises(ConversionError, match="no ONNX file"):
        read_yolox(tmp_path / "none.onnx")
